/** Validates client certificates: chain, time, purpose (the relevant parts of RFC 5280 section 6). */
import type { X509Certificate } from "node:crypto";
import { isWeakCertificate } from "./certificate-strength.ts";
import { certificateExtensions, type Extension, pathLengthOf } from "./der.ts";

/** Why a certificate is rejected. Responses contain it, so it reveals only what the holder can see. */
export const CERTIFICATE_PROBLEMS = [
  "missing",
  "expired",
  "not valid yet",
  "wrong purpose",
  "too weak",
  "not trusted",
  "revoked",
] as const;

export type CertificateProblem = (typeof CERTIFICATE_PROBLEMS)[number];

const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
const BASIC_CONSTRAINTS = "2.5.29.19";
/** Checked here, by OpenSSL or by name: basic constraints, key usage, extended key usage, alternative names. */
const UNDERSTOOD: ReadonlySet<string> = new Set([BASIC_CONSTRAINTS, "2.5.29.15", "2.5.29.37", "2.5.29.17"]);

/** Returns why a certificate is outside its validity period, or undefined. */
export function timeProblem(
  { notBefore, notAfter }: { readonly notBefore: number; readonly notAfter: number },
  nowMs: number,
): "expired" | "not valid yet" | undefined {
  if (nowMs > notAfter) {
    return "expired";
  }
  return nowMs < notBefore ? "not valid yet" : undefined;
}

/**
 * Returns why a certificate is no acceptable client certificate, or undefined. It must be marked for client
 * authentication, have a strong key and signature, and not belong to an authority, which could sign any name.
 */
export function leafProblem(leaf: X509Certificate): "too weak" | "wrong purpose" | undefined {
  // Node calls the extended key usage `keyUsage`.
  const purposes = leaf.keyUsage as readonly string[] | undefined;
  if (leaf.ca || purposes?.includes(CLIENT_AUTH) !== true) {
    return "wrong purpose";
  }
  return isWeakCertificate(leaf) ? "too weak" : undefined;
}

/** Returns the extensions, or undefined if this parser cannot read a certificate that OpenSSL accepted. */
function extensionsOf(certificate: X509Certificate): readonly Extension[] | undefined {
  try {
    return certificateExtensions(certificate.raw);
  } catch {
    return undefined;
  }
}

/** Checks that all critical extensions are understood, as RFC 5280 section 4.2 requires. */
function isUnderstood(certificate: X509Certificate): boolean {
  const unknown = ({ oid, critical }: Extension): boolean => critical && !UNDERSTOOD.has(oid);
  return extensionsOf(certificate)?.some(unknown) === false;
}

/** @param below number of authorities between this one and the leaf */
function mayIssue(authority: X509Certificate, below: number): boolean {
  const constraints = extensionsOf(authority)?.find(({ oid }) => oid === BASIC_CONSTRAINTS);
  return (
    authority.ca &&
    constraints !== undefined &&
    below <= pathLengthOf(constraints.value) &&
    !isWeakCertificate(authority)
  );
}

function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}

export interface ChainOptions {
  readonly leaf: X509Certificate;
  /** Untrusted certificates from the client, a few at most. */
  readonly intermediates: readonly X509Certificate[];
  /** Trusted authorities. */
  readonly anchors: readonly X509Certificate[];
}

/**
 * Returns the authorities from the leaf's issuer to an anchor, or `undefined` without such a chain. The caller checks
 * the validity periods at every request.
 */
export function findChain(options: ChainOptions): readonly X509Certificate[] | undefined {
  const climb = (
    certificate: X509Certificate,
    passed: readonly X509Certificate[],
  ): readonly X509Certificate[] | undefined => {
    const usable = (issuer: X509Certificate): boolean =>
      mayIssue(issuer, passed.length) && isUnderstood(issuer) && isIssuedBy(certificate, issuer);
    const anchor = options.anchors.find(usable);
    if (anchor !== undefined) {
      return [...passed, anchor];
    }
    for (const next of options.intermediates) {
      const chain = passed.includes(next) || !usable(next) ? undefined : climb(next, [...passed, next]);
      if (chain !== undefined) {
        return chain;
      }
    }
    return undefined;
  };
  return isUnderstood(options.leaf) ? climb(options.leaf, []) : undefined;
}
