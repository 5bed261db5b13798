/** Whether a client's certificate is good: chain, time, purpose (RFC 5280 section 6, as far as client certificates go). */
import type { X509Certificate } from "node:crypto";
import { isWeakCertificate } from "./certificate-strength.ts";
import { certificateExtensions, type Extension, pathLengthOf } from "./der.ts";

/** Why a certificate does not count; part of the answer, so it says no more than its holder can see. */
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
/** Basic constraints, key usage, extended key usage, alternative names: what is checked here, by OpenSSL or by name. */
const UNDERSTOOD: ReadonlySet<string> = new Set([BASIC_CONSTRAINTS, "2.5.29.15", "2.5.29.37", "2.5.29.17"]);

/** Whether its times allow the certificate. */
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
 * A client certificate says that it is one, and an authority is no client: whoever can sign names must not use one. Its key
 * and signature must be strong.
 */
export function leafProblem(leaf: X509Certificate): "too weak" | "wrong purpose" | undefined {
  // Node calls the extended key usage `keyUsage`.
  const purposes = leaf.keyUsage as readonly string[] | undefined;
  if (leaf.ca || purposes?.includes(CLIENT_AUTH) !== true) {
    return "wrong purpose";
  }
  return isWeakCertificate(leaf) ? "too weak" : undefined;
}

/** What OpenSSL has taken and our reader does not understand is not good; it must not become an error of ours. */
function extensionsOf(certificate: X509Certificate): readonly Extension[] | undefined {
  try {
    return certificateExtensions(certificate.raw);
  } catch {
    return undefined;
  }
}

/** An extension that is critical and not understood makes a certificate unusable (RFC 5280 section 4.2). */
function isUnderstood(certificate: X509Certificate): boolean {
  const unknown = ({ oid, critical }: Extension): boolean => critical && !UNDERSTOOD.has(oid);
  return extensionsOf(certificate)?.some(unknown) === false;
}

/** @param below how many authorities stand between this one and the leaf */
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
  /** What came with it: at most a few, and nothing is believed of them. */
  readonly intermediates: readonly X509Certificate[];
  /** The authorities that this service trusts. */
  readonly anchors: readonly X509Certificate[];
}

/**
 * The authorities from the leaf's issuer to an anchor; `undefined` when there is no such chain. Times are left to the
 * caller, which asks at every request.
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
