/** The kinds of revocations, and how long they are kept. */
import type { EntryType } from "#compliance/entry-types.ts";

/** The kinds (contract 4.10). `cert` is a client certificate by the SHA-256 of its DER, 64 hexadecimal digits. */
export const REVOCATION_KINDS = ["credential", "principal", "tenant", "jti", "kid", "cert"] as const;

export type RevocationKind = (typeof REVOCATION_KINDS)[number];

/** A change of a tenant's policy. It uses the same sequence; its target is the tenant's id. */
export const POLICY_CHANGE = "policy";

/** 900 s of a token, 60 s for a pending token request, 5 s of skew, and a margin (security decisions D). */
const TOKENS_GONE_MS = 1_200_000;

/**
 * How long revocations must be remembered for admissions, in milliseconds. After that, the stored state of the target
 * has prevented new tokens for longer than a token lives. Keys and certificates can be used elsewhere, whatever we
 * store: null, for ever.
 */
export const REVOCATION_LIFE_MS: Readonly<Record<RevocationKind, number | null>> = {
  credential: TOKENS_GONE_MS,
  principal: TOKENS_GONE_MS,
  tenant: TOKENS_GONE_MS,
  jti: TOKENS_GONE_MS,
  kid: null,
  cert: null,
};

/** The entry type of each kind in the compliance log. */
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
