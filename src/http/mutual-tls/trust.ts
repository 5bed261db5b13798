/** PEM files: trusted authorities, and the server's own key and certificate. */
import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { messageOf } from "#runtime/thrown.ts";
import { isWeakCertificate } from "./certificate-strength.ts";

/** Subject of authorities from `signet dev-ca`. Their keys are stored in a directory, so production rejects them. */
export const DEVELOPMENT_CA_ORGANIZATION = "Signet development - do not trust";

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;
const PEM_BEGINNING = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----/g;

/** Trusted authorities, parsed and as PEM for TLS. */
export interface TrustAnchors {
  /** The PEM of `certificates`, not the file's text: OpenSSL skips certificates of some files without an error. */
  readonly pem: string;
  readonly certificates: readonly X509Certificate[];
}

/** An unusable file; `message` can be shown to users. */
export class TrustError extends Error {
  override readonly name = "TrustError";
}

/** Returns the certificates of a PEM text in order. @throws Error if one is unreadable: none is left out */
export function certificatesOf(pem: string): X509Certificate[] {
  const found = pem.match(PEM_CERTIFICATE) ?? [];
  if (found.length !== (pem.match(PEM_BEGINNING)?.length ?? 0)) {
    throw new Error("a certificate is damaged, or in a form other than BEGIN CERTIFICATE");
  }
  return found.map((text) => new X509Certificate(text));
}

/** Returns certificates as the PEM text to give to TLS. */
export function pemOf(certificates: readonly X509Certificate[]): string {
  return certificates.map(String).join("");
}

/** Reads a PEM file. @throws TrustError */
export async function readPem(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new TrustError(`${path} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Reads one or more authorities from a PEM file.
 *
 * @throws TrustError if the file has no certificate, one that is no authority or too weak, or a development CA in
 *   production
 */
export async function readTrustAnchors(
  path: string,
  { development }: { readonly development: boolean },
): Promise<TrustAnchors> {
  const pem = await readPem(path);
  let certificates: X509Certificate[];
  try {
    certificates = certificatesOf(pem);
  } catch (error) {
    throw new TrustError(`${path} contains an invalid certificate`, { cause: error });
  }
  if (certificates.length === 0 || !certificates.every(({ ca }) => ca)) {
    throw new TrustError(`${path} must contain only CA certificates, and at least one`);
  }
  const weak = certificates.find(isWeakCertificate);
  if (weak !== undefined) {
    throw new TrustError(
      `${path} contains a CA that is too weak (${weak.subject.replaceAll("\n", ", ")}): its key must be RSA of 2,048 bits or more, P-256, P-384, P-521 or Ed25519, and its signature must use SHA-256, SHA-384 or SHA-512`,
    );
  }
  if (!development && certificates.some(({ subject }) => subject.includes(DEVELOPMENT_CA_ORGANIZATION))) {
    throw new TrustError(`${path} contains a development CA, which production does not trust`);
  }
  return { pem: pemOf(certificates), certificates };
}
