/** `/.well-known/jwks.json` (RFC 7517): the public members of the published keys. */
import type { PublicJwk } from "../signing-keys/signing-key.ts";

/** How long verifiers may cache the document, in seconds. A new key is published for longer before it signs. */
export const JWKS_MAX_AGE_SECONDS = 300;

const PUBLIC_MEMBERS = ["kty", "crv", "x", "y", "n", "e", "kid", "alg", "use"] as const;

/** Returns the JWKS document. Members are selected by name, so that private ones cannot leak. */
export function jsonWebKeySet(keys: readonly PublicJwk[]): { keys: Partial<PublicJwk>[] } {
  return {
    keys: keys.map((key) =>
      Object.fromEntries(
        PUBLIC_MEMBERS.flatMap((member) => (key[member] === undefined ? [] : [[member, key[member]]])),
      ),
    ),
  };
}
