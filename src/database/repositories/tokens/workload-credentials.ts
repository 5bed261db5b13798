/** Credentials without a secret, and the assertions used with some of them. */
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";
import { CREDENTIAL_COLUMNS, type NewCredential, type VersionedCredentialRow } from "./credentials.ts";

/** A client's registered set of public keys (RFC 7517). */
export interface ClientKeySet {
  readonly keys: readonly Readonly<Record<string, string>>[];
}

/** Adds a credential without a secret. With `jwks` it signs assertions, else it has a certificate. */
export async function insertWorkloadCredential(
  db: Queryable,
  credential: Omit<NewCredential, "rotation_mode">,
  jwks: ClientKeySet | undefined,
): Promise<VersionedCredentialRow> {
  const { rows } = await db.query<VersionedCredentialRow>(
    sql`INSERT INTO credentials (id, tenant_id, principal_id, client_id, name, rotation_mode, san_uri, certificate_thumbprints, created_at, jwks)
     VALUES (${credential.id}, ${credential.tenant_id}, ${credential.principal_id}, ${credential.client_id}, ${credential.name}, 'workload',
       ${credential.san_uri}, ${credential.certificate_thumbprints}, ${new Date(credential.nowMs)},
       ${jwks === undefined ? null : JSON.stringify(jwks)})
     RETURNING ${raw(CREDENTIAL_COLUMNS)}, NULL::int AS version, NULL::timestamptz AS due_at,
       NULL::timestamptz AS last_used_at`,
  );
  return rows[0] as VersionedCredentialRow;
}

/** A verified assertion. */
export interface UsedAssertion {
  readonly credentialId: string;
  readonly tenantId: string;
  readonly jtiDigest: Buffer;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

/** Expired assertions removed per new one. This keeps the table at about five minutes' size. */
const PURGED_AT_ONCE = 16;

/** Records the use of an assertion; `false` if it was used before. One statement, so two uses cannot both be first. */
export async function useAssertion(db: Queryable, used: UsedAssertion, nowMs: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `WITH expired AS (
       SELECT credential_id, jti_digest FROM client_assertions WHERE expires_at < $5 LIMIT ${PURGED_AT_ONCE}
       FOR UPDATE SKIP LOCKED
     ), purged AS (
       DELETE FROM client_assertions a USING expired e
        WHERE a.credential_id = e.credential_id AND a.jti_digest = e.jti_digest
     )
     INSERT INTO client_assertions (credential_id, jti_digest, tenant_id, expires_at) VALUES ($1, $2, $3, $4)
     ON CONFLICT DO NOTHING`,
    [used.credentialId, used.jtiDigest, used.tenantId, new Date(used.expiresAt), new Date(nowMs)],
  );
  return rowCount === 1;
}
