/** Credentials and the versions of their secrets. */
import type { Queryable } from "../pool.ts";

export interface CredentialRow {
  readonly id: string;
  readonly tenant_id: string;
  readonly principal_id: string;
  readonly client_id: string;
  readonly state: "ACTIVE" | "REVOKED";
  readonly rotation_mode: "in_band" | "workload" | "manual";
  readonly san_uri: string | null;
  readonly certificate_thumbprints: string[];
  readonly created_at: Date;
  readonly revoked_at: Date | null;
}

/** A page of rows with `id < before`, one more than it holds. */
interface Page {
  readonly limit: number;
  readonly before: string | null;
}

const COLUMNS = `id, tenant_id, principal_id, client_id, state, rotation_mode, san_uri, certificate_thumbprints,
  created_at, revoked_at`;

/** A tenant's credentials, newest first. */
export async function listTenantCredentials(
  db: Queryable,
  tenantId: string,
  { limit, before }: Page,
): Promise<CredentialRow[]> {
  const { rows } = await db.query<CredentialRow>(
    `SELECT ${COLUMNS} FROM credentials WHERE tenant_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [tenantId, before, limit + 1],
  );
  return rows;
}

/** One credential of a tenant. */
export async function findTenantCredential(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<CredentialRow | undefined> {
  const { rows } = await db.query<CredentialRow>(
    `SELECT ${COLUMNS} FROM credentials WHERE tenant_id = $1 AND id = $2`,
    [tenantId, id],
  );
  return rows[0];
}
