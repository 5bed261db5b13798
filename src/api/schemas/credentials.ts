import { type Static, Type } from "typebox";
import type { CredentialRow } from "../../database/repositories/credentials.ts";
import { Id, Nullable, Timestamp } from "./common.ts";

/** A credential as its tenant sees it: never a secret. */
export const Credential = Type.Object({
  id: Id("credential"),
  principal_id: Id("principal"),
  client_id: Type.String(),
  state: Type.Union([Type.Literal("ACTIVE"), Type.Literal("REVOKED")]),
  rotation_mode: Type.Union([Type.Literal("in_band"), Type.Literal("workload"), Type.Literal("manual")]),
  san_uri: Nullable(Type.String()),
  certificate_thumbprints: Type.Array(Type.String()),
  created_at: Timestamp,
  revoked_at: Nullable(Timestamp),
});

export type Credential = Static<typeof Credential>;

/** The wire form of a credential's row. */
export function presentCredential(row: CredentialRow): Credential {
  return {
    id: row.id,
    principal_id: row.principal_id,
    client_id: row.client_id,
    state: row.state,
    rotation_mode: row.rotation_mode,
    san_uri: row.san_uri,
    certificate_thumbprints: row.certificate_thumbprints,
    created_at: row.created_at.toISOString(),
    revoked_at: row.revoked_at?.toISOString() ?? null,
  };
}
