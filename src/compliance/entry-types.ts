/** What the compliance log may say: every type of entry, `<noun>.<what happened>`. Add here; never rename or remove. */
export const ENTRY_TYPES = [
  "certificate.revoked",
  "credential.revoked",
  "key.revoked",
  "principal.revoked",
  "tenant.revoked",
  "token.revoked",
] as const;

export type EntryType = (typeof ENTRY_TYPES)[number];

/** Who did it: a credential (with its id), an operator (with the name it goes by) or a part of the service. */
export type Actor = `credential:${string}` | `operator:${string}` | `system:${string}`;
