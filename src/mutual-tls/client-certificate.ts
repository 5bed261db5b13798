/** A client's certificate, as the rest of the service knows it: only what mutual TLS has verified becomes one. */
/** A certificate whose holder proved on this connection that it has the key, and whose chain ends at a trusted CA. */
export interface ClientCertificate {
  /** SHA-256 of the DER form, lowercase hexadecimal: what a credential registers. */
  readonly thumbprint: string;
  /** The same bytes in base64url: `x5t#S256` of a token's `cnf` claim (RFC 8705 section 3.1). */
  readonly x5t: string;
  /** The URIs among its subject alternative names. */
  readonly sanUris: readonly string[];
  /** Unix milliseconds; of the chain as far as it is known, not of the leaf alone. */
  readonly notBefore: number;
  readonly notAfter: number;
}

/** One entry of `subjectAltName` as Node prints it: what could be mistaken for a separator stands in JSON quotes. */
const SAN_ENTRY = /([A-Za-z0-9 ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)/y;

/** The URIs of a printed `subjectAltName`; none when it cannot be read to its end. */
export function subjectAlternativeUris(printed: string | undefined): readonly string[] {
  const text = printed ?? "";
  const uris: string[] = [];
  SAN_ENTRY.lastIndex = 0;
  while (SAN_ENTRY.lastIndex < text.length) {
    const [, kind, value = ""] = SAN_ENTRY.exec(text) ?? [];
    if (kind === undefined) {
      return [];
    }
    if (kind === "URI") {
      uris.push(value.startsWith('"') ? (JSON.parse(value) as string) : value);
    }
  }
  return uris;
}
