/** PEM files: the authorities that are trusted, and our own key and certificate. */
import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { isWeakCertificate } from "./certificate-strength.ts";

/** The subject of an authority that `signet dev-ca` has made: its key lies in a directory, so production refuses it. */
export const DEVELOPMENT_CA_ORGANIZATION = "Signet development - do not trust";

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

/** Authorities, as TLS takes them and as they are looked into. */
export interface TrustAnchors {
  readonly pem: string;
  readonly certificates: readonly X509Certificate[];
}

/** A file that cannot be what it should be; `message` is fit for a terminal. */
export class TrustError extends Error {
  override readonly name = "TrustError";
}

/** The certificates in a text, in their order. @throws when one cannot be read */
export function certificatesOf(pem: string): X509Certificate[] {
  return (pem.match(PEM_CERTIFICATE) ?? []).map((text) => new X509Certificate(text));
}

/** Reads a file of ours. @throws TrustError */
export async function readPem(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new TrustError(
      `${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
      {
        cause: error,
      },
    );
  }
}

/**
 * The authorities of a PEM file, one or more.
 *
 * @throws TrustError for a file without any, with what is no authority or too weak, and in production with a development CA
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
    throw new TrustError(`${path} holds something that is no certificate`, { cause: error });
  }
  if (certificates.length === 0 || !certificates.every(({ ca }) => ca)) {
    throw new TrustError(`${path} must hold CA certificates and nothing else`);
  }
  const weak = certificates.find(isWeakCertificate);
  if (weak !== undefined) {
    throw new TrustError(
      `${path} holds a CA that is too weak (${weak.subject.replaceAll("\n", ", ")}): its key must be RSA of 2,048 bits or more, P-256, P-384, P-521 or Ed25519, and its signature must use SHA-256, SHA-384 or SHA-512`,
    );
  }
  if (!development && certificates.some(({ subject }) => subject.includes(DEVELOPMENT_CA_ORGANIZATION))) {
    throw new TrustError(`${path} holds a development CA, which production does not trust`);
  }
  return { pem, certificates };
}
