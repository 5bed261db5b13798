/** A client's certificate, as the rest of the service knows it: only what mutual TLS has verified becomes one. */
import type { X509Certificate } from "node:crypto";

/** A certificate whose holder proved on this connection that it has the key, and whose chain ends at a trusted CA. */
export interface ClientCertificate {
  /** SHA-256 of the DER form, lowercase hexadecimal: what a credential registers. */
  readonly thumbprint: string;
  /** The same bytes in base64url: `x5t#S256` of a token's `cnf` claim (RFC 8705 section 3.1). */
  readonly x5t: string;
  /** The URIs among its subject alternative names. */
  readonly sanUris: readonly string[];
  /** The certificate and, as far as they are known here, those between it and its root, the root too. */
  readonly chain: readonly X509Certificate[];
  /** Unix milliseconds; of the chain as far as it is known, not of the leaf alone. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** One entry of `subjectAltName` as Node prints it: what could be mistaken for a separator stands in JSON quotes. */
const SAN_ENTRY = /([A-Za-z0-9 ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)/y;

/** A subject alternative name, for instance `DNS` and `edge.internal`. */
export interface AlternativeName {
  readonly kind: string;
  readonly value: string;
}

/** The names of a printed `subjectAltName`; none when it cannot be read to its end. */
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

/** Describes a certificate that has been verified. `issuers` bound its time: a chain is good while all of it is. */
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
