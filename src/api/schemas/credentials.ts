import { type Static, Type } from "typebox";
import type { CredentialRow, VersionStandingRow } from "#database/repositories/tokens/credentials.ts";
import { OVERDUE_MS, type RotationRules, stateAt } from "#domain/secret-version.ts";
import { idPattern } from "#domain/ids.ts";
import { IDEMPOTENCY_HOURS } from "#domain/idempotency.ts";
import { Closed, Formed, Id, Nullable, OneOf, Resource, Timestamp } from "#http/common.ts";
import { CLIENT_ID_PATTERN } from "#tokens/credentials/secret-format.ts";
import { presenter } from "#http/present.ts";

/** Description of a secret in the response that creates it. */
export const SECRET_SHOWN = `Shown only here, and to a repeated request with the same Idempotency-Key within ${IDEMPOTENCY_HOURS} hours; absent for a workload credential`;

/** The path parameter `{id}` of a credential. Leak reports and clients' settings name the client id. */
export const CredentialParams = Closed({
  id: Formed(
    {
      pattern: `${idPattern("credential")}|${CLIENT_ID_PATTERN}`,
      wanted: "the id of a credential (crd_ and 24 characters) or its client id (cl_ and 24 characters)",
      shown: true,
    },
    {
      description: "Id of a credential, or its client id",
      examples: ["crd_01jd3c5xq8m2v7k9r4t6w0zy"],
      "x-noun": "credential",
    },
  ),
});

/** A credential as its tenant sees it, without its secret. */
export const Credential = Resource("Credential", {
  id: Id("credential"),
  principal_id: Id("principal"),
  client_id: Type.String(),
  name: Nullable(Type.String({ description: "A name for humans" })),
  state: OneOf(["ACTIVE", "REVOKED"]),
  rotation_mode: OneOf(["in_band", "workload", "manual"]),
  san_uri: Nullable(Type.String()),
  certificate_thumbprints: Type.Array(Type.String()),
  created_at: Timestamp,
  revoked_at: Nullable(Timestamp),
  ends_at: Nullable(Timestamp),
  replaced_by: Nullable(Id("credential")),
  signature_required: Type.Boolean({ description: "Only its signed events are accepted" }),
  due_at: Nullable(Timestamp),
  last_used_at: Nullable(
    Type.String({
      format: "date-time",
      description: "When one of its secrets last authenticated; null for a workload credential",
    }),
  ),
  overdue: Type.Boolean({
    description: "Its rotation was due at least a week ago and the successor is not in use",
  }),
});

export type Credential = Static<typeof Credential>;

/** A version of a credential's secret. `last_used_at` shows whether it is still used. */
const SecretVersion = Resource("SecretVersion", {
  version: Type.Integer(),
  state: OneOf(["PENDING", "ACTIVE", "RETIRING", "RETIRED", "REVOKED"]),
  issued_at: Timestamp,
  due_at: Nullable(Timestamp),
  acked_at: Nullable(Timestamp),
  last_used_at: Nullable(Timestamp),
  superseded_at: Nullable(Timestamp),
  retire_by: Nullable(Timestamp),
  retired_at: Nullable(Timestamp),
  delivered_count: Type.Integer({ description: "How often it was returned as a successor" }),
});

const versionOf = presenter(SecretVersion);

/** The versions of a credential's secret, newest first. */
export const SecretVersions = { versions: Type.Array(SecretVersion) };

/** The inputs for the state of a credential's versions at a given time. */
export interface PresentOptions {
  readonly rules: RotationRules;
  readonly nowMs: number;
}

/** Returns when a replaced credential ended, or null while it still gets tokens. */
function endOf({ ends_at: endsAt }: CredentialRow, nowMs: number): Date | null {
  return endsAt !== null && endsAt.getTime() <= nowMs ? endsAt : null;
}

const credentialOf = presenter(Credential);

/** Returns the wire form of a credential's row, with its state at `nowMs` even if that is not stored yet. */
export function toCredential(row: CredentialRow, nowMs: number): Credential {
  const dueAt = row.due_at?.getTime() ?? Number.POSITIVE_INFINITY;
  const revokedAt = row.revoked_at ?? endOf(row, nowMs);
  const state = revokedAt === null ? row.state : "REVOKED";
  const rotates = state === "ACTIVE" && row.rotation_mode === "in_band";
  return credentialOf({
    ...row,
    state,
    revoked_at: revokedAt,
    overdue: rotates && dueAt + OVERDUE_MS <= nowMs,
  });
}

/** Returns the wire form of a credential's versions, with their states at `nowMs` even if not stored yet. */
export function toSecretVersions(
  rows: readonly VersionStandingRow[],
  credential: Pick<CredentialRow, "san_uri" | "certificate_thumbprints">,
  { rules, nowMs }: PresentOptions,
): Static<typeof SecretVersion>[] {
  const namesCertificate = credential.san_uri !== null || credential.certificate_thumbprints.length > 0;
  const milliseconds = (date: Date | null): number | null => date?.getTime() ?? null;
  return rows.map((row) => {
    const times = {
      state: row.state,
      issued_at: row.issued_at.getTime(),
      due_at: milliseconds(row.due_at),
      retire_by: milliseconds(row.retire_by),
      superseded_at: milliseconds(row.superseded_at),
      last_used_at: milliseconds(row.last_used_at),
      retired_at: milliseconds(row.retired_at),
      retired_reason: row.retired_reason,
    };
    return versionOf({ ...row, state: stateAt(times, rules, { nowMs, namesCertificate }) });
  });
}
