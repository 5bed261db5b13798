/** Checks the strength of a certificate's key and signature: at least 112 bits of security (NIST SP 800-57). */
import type { X509Certificate } from "node:crypto";
import { weaknessOf } from "#lib/public-key.ts";
import { signatureAlgorithmOf } from "./der.ts";

/** OpenSSL's names of P-256, P-384 and P-521; unnamed curves are rejected. */
const CURVES: ReadonlySet<string> = new Set(["prime256v1", "secp384r1", "secp521r1"]);
/** SHA-256, SHA-384, SHA-512. */
const DIGESTS: ReadonlySet<string> = new Set([
  "2.16.840.1.101.3.4.2.1",
  "2.16.840.1.101.3.4.2.2",
  "2.16.840.1.101.3.4.2.3",
]);
/** RSA (PKCS #1 v1.5) and ECDSA, each with those digests, and Ed25519. */
const SIGNATURES: ReadonlySet<string> = new Set([
  "1.2.840.113549.1.1.11",
  "1.2.840.113549.1.1.12",
  "1.2.840.113549.1.1.13",
  "1.2.840.10045.4.3.2",
  "1.2.840.10045.4.3.3",
  "1.2.840.10045.4.3.4",
  "1.3.101.112",
]);
const RSASSA_PSS = "1.2.840.113549.1.1.10";

function hasStrongKey({ publicKey }: X509Certificate): boolean {
  const { namedCurve = "" } = publicKey.asymmetricKeyDetails ?? {};
  const type = publicKey.asymmetricKeyType;
  return (
    ((type === "ed25519" || type === "rsa" || type === "rsa-pss") && weaknessOf(publicKey) === undefined) ||
    (type === "ec" && CURVES.has(namedCurve))
  );
}

function hasStrongSignature({ raw }: X509Certificate): boolean {
  const { oid, digests } = signatureAlgorithmOf(raw);
  // RSASSA-PSS (RFC 4055 section 3.1) has one digest for the message and one for the mask; each defaults to SHA-1.
  return oid === RSASSA_PSS
    ? digests.length === 2 && digests.every((digest) => DIGESTS.has(digest))
    : SIGNATURES.has(oid);
}

/**
 * Checks whether the certificate is too weak: RSA below 2,048 bits, a curve other than P-256, P-384, P-521 and Ed25519,
 * or a digest other than SHA-256, SHA-384 and SHA-512. An unreadable certificate counts as weak.
 */
export function isWeakCertificate(certificate: X509Certificate): boolean {
  try {
    return !hasStrongKey(certificate) || !hasStrongSignature(certificate);
  } catch {
    return true;
  }
}
