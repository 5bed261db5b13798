/** How the edge signs who calls: HMAC-SHA-256 over the identity, the method and the target that it forwards. */
import { createHmac, type KeyObject } from "node:crypto";

/** Names of the headers, as Node spells them. */
export const IDENTITY_HEADER = "x-signet-identity";
export const IDENTITY_SIGNATURE_HEADER = "x-signet-identity-signature";

/** The part of a request that the signature covers besides the identity. */
export interface SignedRequest {
  readonly method: string;
  /** Path with query, as on the request line. */
  readonly target: string;
}

/** Who calls, as the edge says. */
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

/** The bytes of a signature; `identity` is the header's value. */
export function identityMac(key: KeyObject, identity: string, { method, target }: SignedRequest): Buffer {
  return createHmac("sha256", key).update(`${identity}\n${method}\n${target}`).digest();
}
