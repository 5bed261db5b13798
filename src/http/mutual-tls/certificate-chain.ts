/**
 * Validates certificates: path, purpose and constraints (RFC 5280 section 6). It decides alone wherever a certificate is
 * judged, so every connection and every header gets the same answer. Certificate policies are understood but not
 * evaluated, as in OpenSSL unless a program asks for one.
 */
import type { X509Certificate } from "node:crypto";
import { isWeakCertificate } from "./certificate-strength.ts";
import { certificateExtensions, keyUsageBits, pathLengthOf } from "./der.ts";
import { isSelfIssued, keepsNameConstraints } from "./name-constraints.ts";

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

/** Maximum authorities between the leaf and the anchor. */
export const INTERMEDIATES_MAX = 4;
/** Certificates beside the leaf that are looked at; a client may also send its root, or certificates of no use. */
export const SENT_MAX = 8;
/** Limits of one search: cross-signed authorities have exponentially many paths. */
const SIGNATURES_MAX = 50;
const STEPS_MAX = 200;
const PATHS_MAX = 16;

const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
const BASIC_CONSTRAINTS = "2.5.29.19";
const KEY_USAGE = "2.5.29.15";
/** Key usages with which a client signs or agrees on keys: digitalSignature, keyAgreement. */
const SIGNS_OR_AGREES = 0x88;
/** Critical extensions that are evaluated here or by OpenSSL, and policies. */
const UNDERSTOOD: ReadonlySet<string> = new Set([
  BASIC_CONSTRAINTS,
  KEY_USAGE,
  // Extended key usage, alternative names, name constraints, key identifiers of the subject and the authority.
  "2.5.29.37",
  "2.5.29.17",
  "2.5.29.30",
  "2.5.29.14",
  "2.5.29.35",
  // Certificate policies, their mappings and constraints, no "any policy". Places of revocation lists.
  "2.5.29.32",
  "2.5.29.33",
  "2.5.29.36",
  "2.5.29.54",
  "2.5.29.31",
]);

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

/** Node calls the extended key usage `keyUsage`. */
function purposesOf(certificate: X509Certificate): readonly string[] | undefined {
  return certificate.keyUsage;
}

function maySign(leaf: X509Certificate): boolean {
  try {
    const usage = certificateExtensions(leaf.raw).find(({ oid }) => oid === KEY_USAGE);
    return usage === undefined || (keyUsageBits(usage.value) & SIGNS_OR_AGREES) !== 0;
  } catch {
    // OpenSSL reads more than the parser here, but no certificate needs it.
    return false;
  }
}

/**
 * Returns why a certificate is no acceptable client certificate, or undefined. It must be marked for client
 * authentication, have a strong key and signature, and not belong to an authority, which could sign any name.
 */
export function leafProblem(leaf: X509Certificate): "too weak" | "wrong purpose" | undefined {
  if (isWeakCertificate(leaf)) {
    return "too weak";
  }
  return leaf.ca || purposesOf(leaf)?.includes(CLIENT_AUTH) !== true || !maySign(leaf)
    ? "wrong purpose"
    : undefined;
}

/** @param below number of authorities between this one and the leaf, without self-issued ones */
function mayIssue(authority: X509Certificate, below: number): boolean {
  const constraints = certificateExtensions(authority.raw).find(({ oid }) => oid === BASIC_CONSTRAINTS);
  return authority.ca && constraints !== undefined && below <= pathLengthOf(constraints.value);
}

/** Checks that all critical extensions are understood, as RFC 5280 section 4.2 requires. */
function isUnderstood({ raw }: X509Certificate): boolean {
  return certificateExtensions(raw).every(({ oid, critical }) => !critical || UNDERSTOOD.has(oid));
}

/** Returns whether an anchored path breaks a rule other than time and strength. @throws RangeError for unreadable parts */
function breaksRules(leaf: X509Certificate, issuers: readonly X509Certificate[]): boolean {
  let below = 0;
  for (const authority of issuers) {
    if (!mayIssue(authority, below)) {
      return true;
    }
    below += isSelfIssued(authority.raw) ? 0 : 1;
  }
  const path = [leaf, ...issuers];
  return !path.every(isUnderstood) || !keepsNameConstraints(path.map(({ raw }) => raw));
}

/**
 * Returns which rule a path breaks, or undefined. Validity periods are left to the caller, who checks them at every
 * request.
 *
 * @param issuers from the leaf's issuer to an anchor, of which every signature is verified
 */
export function pathProblem(
  leaf: X509Certificate,
  issuers: readonly X509Certificate[],
): CertificateProblem | undefined {
  if (issuers.some(isWeakCertificate)) {
    return "too weak";
  }
  // An authority for servers vouches for no client: the rule of OpenSSL and Go, also for roots.
  if (issuers.some((issuer) => purposesOf(issuer)?.includes(CLIENT_AUTH) === false)) {
    return "wrong purpose";
  }
  try {
    return breaksRules(leaf, issuers) ? "not trusted" : undefined;
  } catch {
    return "not trusted";
  }
}

export interface ChainOptions {
  readonly leaf: X509Certificate;
  /** Untrusted certificates from the client. */
  readonly intermediates: readonly X509Certificate[];
  /** Trusted authorities. */
  readonly anchors: readonly X509Certificate[];
}

/** Returns a check of names and signature that makes at most {@link SIGNATURES_MAX} checks of signatures. */
function createIssuerCheck(): (certificate: X509Certificate, issuer: X509Certificate) => boolean {
  const known = new Map<X509Certificate, Map<X509Certificate, boolean>>();
  let left = SIGNATURES_MAX;
  return (certificate, issuer) => {
    const answers = known.get(certificate) ?? new Map<X509Certificate, boolean>();
    known.set(certificate, answers);
    let answer = answers.get(issuer);
    if (answer === undefined) {
      answer = certificate.checkIssued(issuer) && (left -= 1) >= 0 && certificate.verify(issuer.publicKey);
      answers.set(issuer, answer);
    }
    return answer;
  };
}

/** Whether a certificate is a root: signed with its own key. */
export function isSelfSigned(certificate: X509Certificate): boolean {
  return certificate.checkIssued(certificate) && certificate.verify(certificate.publicKey);
}

/** Returns the certificates that can help: each once, and no roots, since a sent root is not trusted. */
function usable({ leaf, intermediates }: ChainOptions): readonly X509Certificate[] {
  const seen = [leaf.raw];
  return intermediates.slice(0, SENT_MAX).filter((certificate) => {
    const { raw } = certificate;
    const isNew = !seen.some((other) => other.equals(raw));
    seen.push(raw);
    return isNew && !isSelfSigned(certificate);
  });
}

/**
 * Returns the paths from the leaf to an anchor of which names and signatures are right: for each the authorities, from
 * the leaf's issuer to the anchor. There are several if authorities are renewed or signed by others. Which path is valid
 * is for {@link pathProblem} and the clock to tell.
 */
export function findPaths(options: ChainOptions): readonly (readonly X509Certificate[])[] {
  const { leaf, anchors } = options;
  const candidates = usable(options);
  const isIssuedBy = createIssuerCheck();
  const paths: (readonly X509Certificate[])[] = [];
  let steps = 0;
  const climb = (certificate: X509Certificate, passed: readonly X509Certificate[]): void => {
    steps += 1;
    if (steps > STEPS_MAX || paths.length >= PATHS_MAX) {
      return;
    }
    for (const anchor of anchors) {
      if (isIssuedBy(certificate, anchor)) {
        paths.push([...passed, anchor]);
      }
    }
    for (const next of passed.length < INTERMEDIATES_MAX ? candidates : []) {
      if (!passed.includes(next) && isIssuedBy(certificate, next)) {
        climb(next, [...passed, next]);
      }
    }
  };
  climb(leaf, []);
  return paths;
}
