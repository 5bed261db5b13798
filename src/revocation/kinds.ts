/** What can be revoked, and for how long tokens are compared with it. */
import type { EntryType } from "../compliance/entry-types.ts";

/** wire.md, Token; `cert` is a client certificate by the SHA-256 of its DER, 64 hexadecimal digits. */
export const REVOCATION_KINDS = ["credential", "principal", "tenant", "jti", "kid", "cert"] as const;

export type RevocationKind = (typeof REVOCATION_KINDS)[number];

/** In the same sequence: the policy of a tenant has changed, by the tenant's id. */
export const POLICY_CHANGE = "policy";

/** A token's 900 seconds, 60 for a token request under way, 5 of skew, and time to spare (security decisions D). */
const TOKENS_GONE_MS = 1_200_000;

/**
 * How long a revocation must be known to those who admit tokens, in milliseconds. After that the state of its target
 * has kept tokens from being issued for longer than a token lives. Keys and certificates have holders whom no state of
 * ours stops: null, for ever.
 */
export const REVOCATION_LIFE_MS: Readonly<Record<RevocationKind, number | null>> = {
  credential: TOKENS_GONE_MS,
  principal: TOKENS_GONE_MS,
  tenant: TOKENS_GONE_MS,
  jti: TOKENS_GONE_MS,
  kid: null,
  cert: null,
};

/** What the compliance log calls it. */
export const REVOCATION_ENTRIES = {
  credential: "credential.revoked",
  principal: "principal.revoked",
  tenant: "tenant.revoked",
  jti: "token.revoked",
  kid: "key.revoked",
  cert: "certificate.revoked",
} as const satisfies Record<RevocationKind, EntryType>;

/** Whether the text names a kind. */
export function isRevocationKind(text: string): text is RevocationKind {
  return (REVOCATION_KINDS as readonly string[]).includes(text);
}
