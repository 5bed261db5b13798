/** Certificates for the https tests, created by openssl in a temporary directory. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Certificate and private key, PEM. */
export interface KeyPair {
  readonly key: string;
  readonly cert: string;
}

/** A CA that issues server certificates. */
export interface Authority {
  readonly cert: string;
  /** @param names subject alternative names, for instance `DNS:hooks.example.com`; null for none */
  issue(names: string | null, days?: number, commonName?: string): KeyPair;
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
  return {
    cert: read("ca.pem"),
    issue(names, days = 2, commonName = "receiver") {
      const alternatives = names === null ? "" : `subjectAltName=${names}\n`;
      writeFileSync(path("extensions"), `${alternatives}extendedKeyUsage=serverAuth\n`);
      openssl("req", "-new", ...KEY, "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", `/CN=${commonName}`);
      const signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions"];
      openssl("x509", "-req", "-in", "leaf.csr", "-out", "leaf.pem", "-days", String(days), ...signing);
      return { key: read("leaf.key"), cert: read("leaf.pem") };
    },
    remove() {
      rmSync(directory, { recursive: true });
    },
  };
}
