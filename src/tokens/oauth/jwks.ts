/** `/.well-known/jwks.json` (RFC 7517): the public halves of the published keys, and nothing of the private ones. */
import type { KeyStore } from "../signing-keys/key-store.ts";
import type { PublicJwk } from "../signing-keys/signing-key.ts";

/** Seconds that verifiers may keep the document; a new key is published for longer than this before it signs. */
export const JWKS_MAX_AGE_SECONDS = 300;

const PUBLIC_MEMBERS = ["kty", "crv", "x", "y", "n", "e", "kid", "alg", "use"] as const;

/** The JWKS document: members are taken by name, so that a private one cannot slip through. */
export function jsonWebKeySet(keys: Pick<KeyStore, "publicKeys">): { keys: Partial<PublicJwk>[] } {
  return {
    keys: keys
      .publicKeys()
      .map((key) =>
        Object.fromEntries(
          PUBLIC_MEMBERS.flatMap((member) => (key[member] === undefined ? [] : [[member, key[member]]])),
        ),
      ),
  };
}
