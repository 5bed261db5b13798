/** Credentials and the versions of their secrets. */
import type { RetirementReason, SecretVersionState } from "#domain/secret-version.ts";
import { lockName } from "#database/lock-name.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";
import type { RowPage } from "../page.ts";

export interface CredentialRow {
  readonly id: string;
  readonly tenant_id: string;
  readonly principal_id: string;
  readonly client_id: string;
  /** For people. */
  readonly name: string | null;
  readonly state: "ACTIVE" | "REVOKED";
  readonly rotation_mode: "in_band" | "workload" | "manual";
  readonly san_uri: string | null;
  readonly certificate_thumbprints: string[];
  readonly created_at: Date;
  readonly revoked_at: Date | null;
  /** When a replaced credential ends, and the id of its replacement. */
  readonly ends_at: Date | null;
  readonly replaced_by: string | null;
  /** Whether it must sign what it publishes. */
  readonly signature_required: boolean;
  /** When the current secret is due for a successor; `null` if it does not rotate. */
  readonly due_at: Date | null;
  /** When a secret of it last authenticated; `null` if none did, and for a workload. */
  readonly last_used_at: Date | null;
}

export interface NewCredential {
  readonly id: string;
  readonly tenant_id: string;
  readonly principal_id: string;
  readonly client_id: string;
  readonly name: string | null;
  readonly rotation_mode: CredentialRow["rotation_mode"];
  readonly san_uri: string | null;
  readonly certificate_thumbprints: readonly string[];
  readonly nowMs: number;
}

/** The first version of a credential's secret. */
export interface NewSecret {
  readonly mac: Buffer;
  readonly mac_key_id: string;
  /** When its successor is due, in Unix milliseconds; `null` if it does not rotate. */
  readonly due_at: number | null;
  /** When it ends without a successor, in Unix milliseconds. */
  readonly retire_by: number | null;
}

/** A credential for operators, with the newest version of its secret that may authenticate. */
export type VersionedCredentialRow = CredentialRow & { readonly version: number | null };

/** The columns of a {@link CredentialRow} in its own table. */
export const CREDENTIAL_COLUMNS = `id, tenant_id, principal_id, client_id, name, state, rotation_mode, san_uri, certificate_thumbprints,
  created_at, revoked_at, ends_at, replaced_by, signature_required`;

const DUE_AT = `(SELECT v.due_at FROM secret_versions v
  WHERE v.credential_id = credentials.id AND v.state = 'ACTIVE' ORDER BY v.version DESC LIMIT 1) AS due_at`;
const LAST_USED_AT = `(SELECT max(v.last_used_at) FROM secret_versions v
  WHERE v.credential_id = credentials.id) AS last_used_at`;

/** Returns a tenant's credentials, newest first. */
export async function listTenantCredentials(
  db: Queryable,
  tenantId: string,
  { limit, before }: RowPage,
): Promise<CredentialRow[]> {
  const { rows } = await db.query<CredentialRow>(
    `SELECT ${CREDENTIAL_COLUMNS}, ${DUE_AT}, ${LAST_USED_AT} FROM credentials WHERE tenant_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [tenantId, before, limit + 1],
  );
  return rows;
}

/** Returns one credential of a tenant, by its id or its client id. */
export async function findTenantCredential(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<CredentialRow | undefined> {
  const { rows } = await db.query<CredentialRow>(
    `SELECT ${CREDENTIAL_COLUMNS}, ${DUE_AT}, ${LAST_USED_AT} FROM credentials WHERE tenant_id = $1 AND (id = $2 OR client_id = $2)`,
    [tenantId, id],
  );
  return rows[0];
}

/** Adds a credential with version 1 of its secret, in one statement. */
export async function insertCredential(
  db: Queryable,
  credential: NewCredential,
  { mac, mac_key_id: macKeyId, due_at: dueAt, retire_by: retireBy }: NewSecret,
): Promise<VersionedCredentialRow> {
  const { id, tenant_id: tenantId } = credential;
  const at = new Date(credential.nowMs);
  const { rows } = await db.query<VersionedCredentialRow>(
    sql`WITH made AS (
       INSERT INTO credentials (id, tenant_id, principal_id, client_id, name, rotation_mode, san_uri, certificate_thumbprints, created_at)
       VALUES (${id}, ${tenantId}, ${credential.principal_id}, ${credential.client_id}, ${credential.name}, ${credential.rotation_mode},
         ${credential.san_uri}, ${credential.certificate_thumbprints}, ${at}) RETURNING *
     ), secret AS (
       INSERT INTO secret_versions (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at, acked_at, due_at, retire_by)
       VALUES (${id}, 1, ${tenantId}, ${mac}, ${macKeyId}, 'ACTIVE', ${at}, ${at},
         ${dueAt === null ? null : new Date(dueAt)}, ${retireBy === null ? null : new Date(retireBy)}) RETURNING version, due_at
     )
     SELECT ${raw(CREDENTIAL_COLUMNS)}, version, due_at, NULL::timestamptz AS last_used_at FROM made, secret`,
  );
  return rows[0] as VersionedCredentialRow;
}

const VERSION = `(SELECT max(v.version) FROM secret_versions v
  WHERE v.credential_id = credentials.id AND v.state IN ('PENDING', 'ACTIVE', 'RETIRING')) AS version`;

/** Returns a principal's credentials, newest first, for operators. */
export async function listPrincipalCredentials(
  db: Queryable,
  principalId: string,
  { limit, before }: RowPage,
): Promise<VersionedCredentialRow[]> {
  const { rows } = await db.query<VersionedCredentialRow>(
    `SELECT ${CREDENTIAL_COLUMNS}, ${DUE_AT}, ${LAST_USED_AT}, ${VERSION} FROM credentials
      WHERE principal_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [principalId, before, limit + 1],
  );
  return rows;
}

/** Returns one credential, by its id or its client id, for operators. */
export async function findCredential(db: Queryable, id: string): Promise<VersionedCredentialRow | undefined> {
  const { rows } = await db.query<VersionedCredentialRow>(
    `SELECT ${CREDENTIAL_COLUMNS}, ${DUE_AT}, ${LAST_USED_AT}, ${VERSION} FROM credentials WHERE id = $1 OR client_id = $1`,
    [id],
  );
  return rows[0];
}

/** The state of a secret's version, without its value. */
export interface VersionStandingRow {
  readonly version: number;
  readonly state: SecretVersionState;
  readonly issued_at: Date;
  readonly due_at: Date | null;
  readonly acked_at: Date | null;
  readonly last_used_at: Date | null;
  readonly superseded_at: Date | null;
  readonly retire_by: Date | null;
  readonly retired_at: Date | null;
  readonly retired_reason: RetirementReason | null;
  readonly delivered_count: number;
}

/** Maximum number of versions returned per credential: four years of rotations. */
const VERSIONS_MAX = 50;

/** Returns the versions of a credential's secret, newest first. */
export async function listVersions(db: Queryable, credentialId: string): Promise<VersionStandingRow[]> {
  const { rows } = await db.query<VersionStandingRow>(
    `SELECT version, state, issued_at, due_at, acked_at, last_used_at, superseded_at, retire_by, retired_at, retired_reason,
            delivered_count
       FROM secret_versions WHERE credential_id = $1 ORDER BY version DESC LIMIT $2`,
    [credentialId, VERSIONS_MAX],
  );
  return rows;
}

/** Whether the principal has `limit` active credentials. Concurrent callers wait until this transaction ends. */
export async function hasCredentials(db: Queryable, principalId: string, limit: number): Promise<boolean> {
  await lockName(db, `credentials/${principalId}`);
  const { rowCount } = await db.query(
    "SELECT FROM credentials WHERE principal_id = $1 AND state = 'ACTIVE' LIMIT $2",
    [principalId, limit],
  );
  return rowCount === limit;
}

/** Sets the end and the replacement of a credential. @returns false if it had ended or was already replaced */
export async function replaceCredential(
  db: Queryable,
  tenantId: string,
  { id, by, endsAt }: { readonly id: string; readonly by: string; readonly endsAt: number },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `UPDATE credentials SET ends_at = $4, replaced_by = $3
      WHERE tenant_id = $1 AND id = $2 AND state = 'ACTIVE' AND ends_at IS NULL`,
    [tenantId, id, by, new Date(endsAt)],
  );
  return rowCount === 1;
}

/** A credential that something leaked belongs to. */
export interface CredentialOwner {
  readonly id: string;
  readonly tenant_id: string;
  readonly client_id: string;
}

/**
 * Returns a credential by its id or its client id (role signet_operator, or signet_api for its tenant).
 *
 * @param tenantId the only tenant to search; null for all
 */
export async function findCredentialOwner(
  db: Queryable,
  tenantId: string | null,
  id: string,
): Promise<CredentialOwner | undefined> {
  const { rows } = await db.query<CredentialOwner>(
    `SELECT id, tenant_id, client_id FROM credentials
      WHERE (id = $2 OR client_id = $2) AND ($1::text IS NULL OR tenant_id = $1)`,
    [tenantId, id],
  );
  return rows[0];
}

/** Returns credentials that name a certificate by its SHA-256, active ones first. */
export async function listCertificateOwners(
  db: Queryable,
  tenantId: string | null,
  { sha256, limit }: { readonly sha256: string; readonly limit: number },
): Promise<CredentialOwner[]> {
  const { rows } = await db.query<CredentialOwner>(
    `SELECT id, tenant_id, client_id FROM credentials
      WHERE certificate_thumbprints @> ARRAY[$2::text] AND ($1::text IS NULL OR tenant_id = $1)
      ORDER BY state, id LIMIT $3`,
    [tenantId, sha256, limit],
  );
  return rows;
}

/**
 * Returns the credential and the version of a client secret by its MACs, whatever its state (role signet_operator, or
 * signet_api for its tenant).
 */
export async function findClientSecret(
  db: Queryable,
  macs: readonly Buffer[],
): Promise<{ readonly credential_id: string; readonly version: number } | undefined> {
  const { rows } = await db.query<{ credential_id: string; version: number }>(
    "SELECT credential_id, version FROM find_client_secret($1::bytea[])",
    [macs],
  );
  return rows[0];
}
