/**
 * `signet dev-ca`: a certificate authority for development, with certificates for the listener and for clients. Its key
 * is stored beside them, so production does not trust it. compose/init.sh makes the same files and the same certificates under a
 * name of its own, and each continues a directory of the other; a test compares them.
 */
import { X509Certificate } from "node:crypto";
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import type { Authority, KeyPair } from "./authority.ts";
import { DEVELOPMENT_CA_ORGANIZATION } from "./trust.ts";

const DAY_MS = 86_400_000;
const CA_DAYS = 3_650;
/** Browsers and macOS reject server certificates with a longer validity. */
const LEAF_DAYS = 397;
/** A certificate that expires within this time is renewed at the next start. */
const RENEW_BEFORE_MS = 30 * DAY_MS;
const CA_SUBJECT = `CN=Signet development CA, O=${DEVELOPMENT_CA_ORGANIZATION}`;
const HOSTS = [
  { type: "dns", value: "localhost" },
  { type: "ip", value: "127.0.0.1" },
  { type: "ip", value: "::1" },
] as const;

/** The files of a key and its certificate. */
export interface KeyPairFiles {
  readonly keyFile: string;
  readonly certFile: string;
}

export interface DevelopmentCa {
  readonly caFile: string;
  readonly server: KeyPairFiles;
  /**
   * Returns a certificate for a client, creating or renewing it if needed.
   *
   * @param name base name of the files: letters, digits and hyphens
   * @param sanUri SPIFFE id of the client, which a credential may register
   */
  client(name: string, sanUri: string): Promise<KeyPairFiles & { readonly thumbprint: string }>;
}

export interface DevelopmentCaOptions {
  readonly directory: string;
  readonly nowMs: number;
}

/** Writes a file atomically, readable only by its owner. */
async function writePrivately(path: string, text: string): Promise<void> {
  const file = await open(`${path}.new`, "w", 0o600);
  try {
    await file.chmod(0o600);
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
}

async function readPair({ keyFile, certFile }: KeyPairFiles): Promise<KeyPair | undefined> {
  try {
    const [key, cert] = await Promise.all([readFile(keyFile, "utf8"), readFile(certFile, "utf8")]);
    return { key, cert };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}

async function writePair({ keyFile, certFile }: KeyPairFiles, { key, cert }: KeyPair): Promise<void> {
  await writePrivately(keyFile, key);
  await writePrivately(certFile, cert);
}

function days(nowMs: number, count: number): { readonly notBefore: Date; readonly notAfter: Date } {
  // Start an hour ago to tolerate clock skew.
  return { notBefore: new Date(nowMs - 3_600_000), notAfter: new Date(nowMs + count * DAY_MS) };
}

async function openCa(files: KeyPairFiles, nowMs: number): Promise<Authority> {
  const { createAuthority, openAuthority } = await import("./authority.ts");
  const known = await readPair(files);
  if (known !== undefined) {
    return await openAuthority(known);
  }
  const made = await createAuthority({
    subject: CA_SUBJECT,
    ...days(nowMs, CA_DAYS),
    authority: { pathLength: 0 },
  });
  await writePair(files, made);
  return made;
}

/** Checks that the authority issued the pair, that its SPIFFE id matches, and that it does not expire soon. */
function isUsable(pair: KeyPair | undefined, ca: Authority, nowMs: number, sanUri?: string): boolean {
  if (pair === undefined) {
    return false;
  }
  const certificate = new X509Certificate(pair.cert);
  return (
    certificate.verify(new X509Certificate(ca.cert).publicKey) &&
    Date.parse(certificate.validTo) - nowMs > RENEW_BEFORE_MS &&
    (sanUri === undefined || certificate.subjectAltName === `URI:${sanUri}`)
  );
}

/** Opens the authority of a directory, creating it and the server's certificate if needed. */
export async function openDevelopmentCa({ directory, nowMs }: DevelopmentCaOptions): Promise<DevelopmentCa> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const files = (name: string): KeyPairFiles => ({
    keyFile: join(directory, `${name}.key`),
    certFile: join(directory, `${name}.crt`),
  });
  const ca = await openCa(files("ca"), nowMs);
  const server = files("server");
  if (!isUsable(await readPair(server), ca, nowMs)) {
    const request = { subject: "CN=localhost", names: [...HOSTS], purposes: ["serverAuth"] as const };
    await writePair(server, await ca.issue({ ...request, ...days(nowMs, LEAF_DAYS) }));
  }
  return {
    caFile: files("ca").certFile,
    server,
    client: async (name, sanUri) => {
      const client = files(name);
      if (!isUsable(await readPair(client), ca, nowMs, sanUri)) {
        const names = [{ type: "url", value: sanUri } as const];
        const request = { subject: `CN=${name}`, names, purposes: ["clientAuth"] as const };
        await writePair(client, await ca.issue({ ...request, ...days(nowMs, LEAF_DAYS) }));
      }
      const { fingerprint256 } = new X509Certificate(await readFile(client.certFile));
      return { ...client, thumbprint: fingerprint256.replaceAll(":", "").toLowerCase() };
    },
  };
}
