/** What the compliance log may say: every type of entry, `<noun>.<what happened>`. Add here; never rename or remove. */
export const ENTRY_TYPES = [
  "certificate.revoked",
  "credential.created",
  "credential.replaced",
  "credential.rescued",
  "credential.retired",
  "credential.retired_secret_used",
  "credential.revoked",
  "credential.rotated",
  "credential.rotation_due",
  "credential.rotation_overdue",
  "credential.successor_created",
  "credential.successor_delivered",
  "events.published_for_tenant",
  "key.activated",
  "key.created",
  "key.gone",
  "key.hastened",
  "key.retired",
  "key.revoked",
  "key.rewrapped",
  "operator.changed",
  "operator.created",
  "operator.refused",
  "operator.revoked",
  "operator.token_created",
  "operator.token_revoked",
  "principal.created",
  "principal.reprovisioned",
  "principal.revoked",
  "role.changed",
  "role.created",
  "tenant.created",
  "tenant.resumed",
  "tenant.revoked",
  "tenant.suspended",
  "token.revoked",
] as const;

export type EntryType = (typeof ENTRY_TYPES)[number];

/** Who did it: a credential (with its id), an operator (with its id, or `bootstrap`) or a part of the service. */
export type Actor = `credential:${string}` | `operator:${string}` | `system:${string}`;
