/** Credentials and the versions of their secrets. */
import type { Queryable } from "../pool.ts";
import type { RowPage } from "./page.ts";

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

export interface NewCredential {
  readonly id: string;
  readonly tenantId: string;
  readonly principalId: string;
  readonly clientId: string;
  readonly rotationMode: CredentialRow["rotation_mode"];
  readonly sanUri: string | null;
  readonly certificateThumbprints: readonly string[];
  readonly nowMs: number;
}

/** The first version of a credential's secret. */
export interface NewSecret {
  readonly mac: Buffer;
  readonly macKeyId: string;
  /** When its successor is due, Unix milliseconds; `null` when it is not rotated. */
  readonly dueAt: number | null;
  /** When it ends without one, Unix milliseconds. */
  readonly retireBy: number | null;
}

/** A credential as operators see it, with the newest version of its secret that may authenticate. */
export type VersionedCredentialRow = CredentialRow & { readonly version: number | null };

const COLUMNS = `id, tenant_id, principal_id, client_id, state, rotation_mode, san_uri, certificate_thumbprints,
  created_at, revoked_at`;

/** A tenant's credentials, newest first. */
export async function listTenantCredentials(
  db: Queryable,
  tenantId: string,
  { limit, before }: RowPage,
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

/** Adds a credential with version 1 of its secret, in one statement. */
export async function insertCredential(
  db: Queryable,
  credential: NewCredential,
  secret: NewSecret,
): Promise<VersionedCredentialRow> {
  const { rows } = await db.query<VersionedCredentialRow>(
    `WITH made AS (
       INSERT INTO credentials (id, tenant_id, principal_id, client_id, rotation_mode, san_uri, certificate_thumbprints, created_at)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING *
     ), secret AS (
       INSERT INTO secret_versions (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at, acked_at, due_at, retire_by)
       VALUES ($1, 1, $2, $9, $10, 'ACTIVE', $8, $8, $11, $12) RETURNING version
     )
     SELECT ${COLUMNS}, version FROM made, secret`,
    [
      credential.id,
      credential.tenantId,
      credential.principalId,
      credential.clientId,
      credential.rotationMode,
      credential.sanUri,
      credential.certificateThumbprints,
      new Date(credential.nowMs),
      secret.mac,
      secret.macKeyId,
      secret.dueAt === null ? null : new Date(secret.dueAt),
      secret.retireBy === null ? null : new Date(secret.retireBy),
    ],
  );
  return rows[0] as VersionedCredentialRow;
}

const VERSION = `(SELECT max(v.version) FROM secret_versions v
  WHERE v.credential_id = credentials.id AND v.state IN ('PENDING', 'ACTIVE', 'RETIRING')) AS version`;

/** A principal's credentials, newest first, for operators. */
export async function listPrincipalCredentials(
  db: Queryable,
  principalId: string,
  { limit, before }: RowPage,
): Promise<VersionedCredentialRow[]> {
  const { rows } = await db.query<VersionedCredentialRow>(
    `SELECT ${COLUMNS}, ${VERSION} FROM credentials
      WHERE principal_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [principalId, before, limit + 1],
  );
  return rows;
}

/** One credential, for operators. */
export async function findCredential(db: Queryable, id: string): Promise<VersionedCredentialRow | undefined> {
  const { rows } = await db.query<VersionedCredentialRow>(
    `SELECT ${COLUMNS}, ${VERSION} FROM credentials WHERE id = $1`,
    [id],
  );
  return rows[0];
}
