/** The edge's signature of a caller's identity: HMAC-SHA-256 over the identity, the method and the forwarded target. */
/** Names of the headers, as Node spells them. */
export const IDENTITY_HEADER = "x-signet-identity";
export const IDENTITY_SIGNATURE_HEADER = "x-signet-identity-signature";

/** The part of a request that the signature covers in addition to the identity. */
export interface SignedRequest {
  readonly method: string;
  /** Path with query, as on the request line. */
  readonly target: string;
}

/** The caller's identity. */
export interface EdgeIdentity {
  readonly tenant: string;
  readonly principal: string;
  /** Scopes of the access token, separated by spaces. */
  readonly scope: string;
  readonly region: string;
  readonly request_id: string;
  /** When the edge signed, Unix seconds. */
  readonly iat: number;
}

/** Returns the signed text; `identity` is the header's value. */
export function signedText(identity: string, { method, target }: SignedRequest): string {
  return `${identity}\n${method}\n${target}`;
}
