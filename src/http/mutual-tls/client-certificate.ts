/** A client's certificate, after mutual TLS has verified it. */
import { X509Certificate } from "node:crypto";

/** A certificate whose holder proved possession of its key on this connection, and whose chain ends at a trusted CA. */
export interface ClientCertificate {
  /** SHA-256 of the DER form in lower-case hexadecimal, as credentials register it. */
  readonly thumbprint: string;
  /** The same bytes in base64url: `x5t#S256` of a token's `cnf` claim (RFC 8705 section 3.1). */
  readonly x5t: string;
  /** The URIs among its subject alternative names. */
  readonly sanUris: readonly string[];
  /** The certificate and its known issuers, up to the root. */
  readonly chain: readonly X509Certificate[];
  /** Start of the validity of the known chain, in Unix milliseconds. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** Matches an entry of `subjectAltName` as Node prints it; values with separators are JSON strings. */
const SAN_ENTRY = /([A-Za-z0-9 ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)/y;

/** A subject alternative name, for instance `DNS` and `edge.internal`. */
export interface AlternativeName {
  readonly kind: string;
  readonly value: string;
}

/** Parses a printed `subjectAltName`. Returns an empty list if any part is unreadable. */
export function subjectAlternativeNames(printed: string | undefined): readonly AlternativeName[] {
  const text = printed ?? "";
  const names: AlternativeName[] = [];
  SAN_ENTRY.lastIndex = 0;
  while (SAN_ENTRY.lastIndex < text.length) {
    const [, kind, value = ""] = SAN_ENTRY.exec(text) ?? [];
    if (kind === undefined) {
      return [];
    }
    names.push({ kind, value: value.startsWith('"') ? (JSON.parse(value) as string) : value });
  }
  return names;
}

/** Checks whether the certificate has one of the pinned names, such as `DNS:edge.internal` or `URI:spiffe://…`. */
export function hasPinnedName({ subjectAltName }: X509Certificate, names: readonly string[]): boolean {
  return subjectAlternativeNames(subjectAltName).some(({ kind, value }) =>
    names.includes(`${kind}:${value}`),
  );
}

/** Returns a check for `node:tls` that a server's certificate has a pinned name, regardless of the connection's host. */
export function pinnedNameCheck(names: readonly string[], refusal: string) {
  return (_hostname: string, { raw }: { readonly raw: Buffer }): Error | undefined => {
    const certificate = new X509Certificate(raw);
    return hasPinnedName(certificate, names)
      ? undefined
      : new Error(`${refusal}; it has ${certificate.subjectAltName ?? "none"}`);
  };
}

/** Describes a verified certificate. The validity of `issuers` limits its own. */
export function describeCertificate(
  leaf: X509Certificate,
  issuers: readonly X509Certificate[] = [],
): ClientCertificate {
  const digest = Buffer.from(leaf.fingerprint256.replaceAll(":", ""), "hex");
  const chain = [leaf, ...issuers];
  return {
    thumbprint: digest.toString("hex"),
    x5t: digest.toString("base64url"),
    sanUris: subjectAlternativeNames(leaf.subjectAltName)
      .filter(({ kind }) => kind === "URI")
      .map(({ value }) => value),
    chain,
    notBefore: Math.max(...chain.map((certificate) => Date.parse(certificate.validFrom))),
    notAfter: Math.min(...chain.map((certificate) => Date.parse(certificate.validTo))),
  };
}
