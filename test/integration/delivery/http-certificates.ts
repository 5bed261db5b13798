/** Certificates for the tests of https, made by openssl in a directory of their own. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** PEM. */
export interface KeyPair {
  readonly key: string;
  readonly cert: string;
}

/** An authority that issues certificates of servers and of clients. */
export interface Authority {
  readonly cert: string;
  /** @param names subject alternative names, for instance `DNS:hooks.example.com` */
  issue(names: string, days?: number): KeyPair;
  /** A client's certificate. */
  issueClient(commonName: string, names: string): KeyPair;
  remove(): void;
}

const KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

export function createAuthority(): Authority {
  const directory = mkdtempSync(join(tmpdir(), "signet-certificates-"));
  const path = (name: string) => join(directory, name);
  const read = (name: string) => readFileSync(path(name), "utf8");
  const openssl = (...args: readonly string[]) =>
    execFileSync("openssl", args, { cwd: directory, stdio: "pipe" });
  openssl(
    "req",
    "-x509",
    ...KEY,
    "-keyout",
    "ca.key",
    "-out",
    "ca.pem",
    "-days",
    "2",
    "-subj",
    "/CN=Test CA",
  );
  const sign = (commonName: string, extensions: string, days: number): KeyPair => {
    writeFileSync(path("extensions"), extensions);
    openssl("req", "-new", ...KEY, "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", `/CN=${commonName}`);
    const signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions"];
    openssl("x509", "-req", "-in", "leaf.csr", "-out", "leaf.pem", "-days", String(days), ...signing);
    return { key: read("leaf.key"), cert: read("leaf.pem") };
  };
  return {
    cert: read("ca.pem"),
    issue: (names, days = 2) =>
      sign("receiver", `subjectAltName=${names}\nextendedKeyUsage=serverAuth\n`, days),
    issueClient: (commonName, names) =>
      sign(commonName, `subjectAltName=${names}\nextendedKeyUsage=clientAuth\n`, 2),
    remove() {
      rmSync(directory, { recursive: true });
    },
  };
}
