/** Endpoints and their secrets. */
import { SignetError } from "../../errors.ts";
import { isRefusedByState } from "../errors.ts";
import type { Queryable } from "../pool.ts";

export type StoredEndpointState = "PENDING" | "ACTIVE" | "DISABLED" | "DELETED";
export type VerificationState = "WANTED" | "RUNNING" | "VERIFIED" | "EXHAUSTED";

export interface Endpoint {
  readonly id: string;
  readonly tenantId: string;
  readonly url: string;
  readonly eventTypes: readonly string[];
  /** JSON text as the tenant wrote it. */
  readonly metadata: string | null;
  readonly description: string | null;
  readonly state: StoredEndpointState;
  readonly disabledReason: string | null;
  readonly generation: number;
  readonly verificationState: VerificationState;
  readonly verificationAttempts: number;
  readonly verificationLastError: string | null;
  readonly verificationNextAttemptAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

interface EndpointRow {
  id: string;
  tenant_id: string;
  url: string;
  event_types: string[];
  metadata: string | null;
  description: string | null;
  state: StoredEndpointState;
  disabled_reason: string | null;
  generation: number;
  verification_state: VerificationState;
  verification_attempts: number;
  verification_last_error: string | null;
  verification_next_attempt_at: Date | null;
  created_at: Date;
  updated_at: Date;
}

const COLUMNS = `id, tenant_id, url, event_types, metadata, description, state, disabled_reason, generation,
  verification_state, verification_attempts, verification_last_error, verification_next_attempt_at, created_at, updated_at`;

function toEndpoint(row: EndpointRow): Endpoint {
  return {
    id: row.id,
    tenantId: row.tenant_id,
    url: row.url,
    eventTypes: row.event_types,
    metadata: row.metadata,
    description: row.description,
    state: row.state,
    disabledReason: row.disabled_reason,
    generation: row.generation,
    verificationState: row.verification_state,
    verificationAttempts: row.verification_attempts,
    verificationLastError: row.verification_last_error,
    verificationNextAttemptAt: row.verification_next_attempt_at,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export interface NewEndpoint {
  readonly id: string;
  readonly tenantId: string;
  readonly url: string;
  readonly eventTypes: readonly string[];
  readonly metadata: string | null;
  readonly description: string | null;
  readonly sealedSecret: string;
  readonly secretFingerprint: string;
  readonly now: Date;
}

/** Inserts an endpoint that waits for its verification, with its first secret. Run inside a tenant transaction. */
export async function insertEndpoint(db: Queryable, endpoint: NewEndpoint): Promise<Endpoint> {
  const { rows } = await db.query<EndpointRow>({
    name: "insert-endpoint",
    text: `INSERT INTO endpoints (id, tenant_id, url, event_types, metadata, description, state, verification_state,
        verification_requested_at, created_at, updated_at)
      VALUES ($1, $2, $3, $4, $5, $6, 'PENDING', 'WANTED', $7, $7, $7) RETURNING ${COLUMNS}`,
    values: [
      endpoint.id,
      endpoint.tenantId,
      endpoint.url,
      endpoint.eventTypes,
      endpoint.metadata,
      endpoint.description,
      endpoint.now,
    ],
  });
  await insertFirstSecret(db, endpoint);
  return toEndpoint(rows[0] as EndpointRow);
}

async function insertFirstSecret(db: Queryable, endpoint: NewEndpoint): Promise<void> {
  try {
    await db.query({
      name: "insert-endpoint-secret",
      text: `INSERT INTO endpoint_secrets (endpoint_id, version, tenant_id, secret, fingerprint, state, created_at)
        VALUES ($1, 1, $2, $3, $4, 'CURRENT', $5)`,
      values: [
        endpoint.id,
        endpoint.tenantId,
        endpoint.sealedSecret,
        endpoint.secretFingerprint,
        endpoint.now,
      ],
    });
  } catch (error) {
    if (isRefusedByState(error, "endpoint_secrets_frozen")) {
      throw new SignetError("INVALID_STATE", {
        detail: "The tenant is held: its endpoints' secrets stay as they are, and there are no new ones.",
        cause: error,
      });
    }
    throw error;
  }
}

/** Locks the tenant's row, so that two requests cannot both take the last place under a limit; counts its endpoints. */
export async function countEndpoints(db: Queryable, tenantId: string): Promise<number> {
  await db.query({
    name: "lock-tenant-endpoints",
    text: "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
    values: [`endpoints/${tenantId}`],
  });
  const { rows } = await db.query<{ count: number }>({
    name: "count-endpoints",
    text: "SELECT count(*) AS count FROM endpoints WHERE tenant_id = $1 AND state <> 'DELETED'",
    values: [tenantId],
  });
  return rows[0]?.count ?? 0;
}

export async function findEndpoint(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<Endpoint | undefined> {
  const { rows } = await db.query<EndpointRow>({
    name: "find-endpoint",
    text: `SELECT ${COLUMNS} FROM endpoints WHERE id = $1 AND tenant_id = $2 AND state <> 'DELETED'`,
    values: [id, tenantId],
  });
  return rows[0] === undefined ? undefined : toEndpoint(rows[0]);
}

/** Newest first, after the endpoint `before` if one is named. */
export async function listEndpoints(
  db: Queryable,
  tenantId: string,
  { before, limit }: { readonly before: string | undefined; readonly limit: number },
): Promise<Endpoint[]> {
  const { rows } = await db.query<EndpointRow>({
    name: "list-endpoints",
    text: `SELECT ${COLUMNS} FROM endpoints
      WHERE tenant_id = $1 AND state <> 'DELETED' AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    values: [tenantId, before ?? null, limit],
  });
  return rows.map(toEndpoint);
}

/** Leaves a tombstone and erases the secrets; false when there was no such endpoint. */
export async function deleteEndpoint(
  db: Queryable,
  tenantId: string,
  id: string,
  now: Date,
): Promise<boolean> {
  const { rowCount } = await db.query({
    name: "delete-endpoint",
    text: `UPDATE endpoints SET state = 'DELETED', generation = generation + 1, deleted_at = $3, updated_at = $3,
        verification_next_attempt_at = NULL
      WHERE id = $1 AND tenant_id = $2 AND state <> 'DELETED'`,
    values: [id, tenantId, now],
  });
  await db.query({
    name: "erase-endpoint-secrets",
    text: "UPDATE endpoint_secrets SET secret = '', state = 'RETIRED' WHERE endpoint_id = $1 AND tenant_id = $2",
    values: [id, tenantId],
  });
  return rowCount === 1;
}

/** Records the wish for a ping now: whoever kicks the workflow, api or sweep, finds it here. */
export async function wantVerification(
  db: Queryable,
  { tenantId, id, now }: { readonly tenantId: string; readonly id: string; readonly now: Date },
): Promise<Endpoint | undefined> {
  const { rows } = await db.query<EndpointRow>({
    name: "want-verification",
    text: `UPDATE endpoints SET verification_state = 'WANTED', verification_requested_at = $3,
        generation = CASE WHEN verification_state = 'EXHAUSTED' THEN generation + 1 ELSE generation END
      WHERE id = $1 AND tenant_id = $2 AND state = 'PENDING' RETURNING ${COLUMNS}`,
    values: [id, tenantId, now],
  });
  return rows[0] === undefined ? undefined : toEndpoint(rows[0]);
}

/** A new verification run after one that has closed; undefined when the endpoint moved on meanwhile. */
export async function nextGeneration(
  db: Queryable,
  id: string,
  generation: number,
): Promise<number | undefined> {
  const { rows } = await db.query<{ generation: number }>({
    name: "next-generation",
    text: `UPDATE endpoints SET generation = generation + 1, verification_state = 'WANTED'
      WHERE id = $1 AND generation = $2 AND state = 'PENDING' RETURNING generation`,
    values: [id, generation],
  });
  return rows[0]?.generation;
}

export interface WantedVerification {
  readonly id: string;
  readonly tenantId: string;
  readonly generation: number;
}

/** Wishes older than `before` that no ping has answered; they count as requested `now` again. */
export async function takeWantedVerifications(
  db: Queryable,
  { before, now, limit }: { readonly before: Date; readonly now: Date; readonly limit: number },
): Promise<WantedVerification[]> {
  const { rows } = await db.query<{ id: string; tenant_id: string; generation: number }>({
    name: "take-wanted-verifications",
    text: `WITH wanted AS (
        SELECT id FROM endpoints
        WHERE verification_state = 'WANTED' AND state = 'PENDING' AND verification_requested_at < $1
        ORDER BY verification_requested_at LIMIT $3 FOR UPDATE SKIP LOCKED
      )
      UPDATE endpoints e SET verification_requested_at = $2 FROM wanted w WHERE e.id = w.id
      RETURNING e.id, e.tenant_id, e.generation`,
    values: [before, now, limit],
  });
  return rows.map((row) => ({ id: row.id, tenantId: row.tenant_id, generation: row.generation }));
}

/** What a ping is made of. */
export interface PingTarget {
  readonly tenantId: string;
  readonly url: string;
  readonly metadata: string | null;
  readonly sealedSecret: string;
  readonly secretVersion: number;
  readonly wrappedDataKey: string;
}

/** The endpoint to ping; undefined when it does not wait for this generation's ping any more. */
export async function loadForPing(
  db: Queryable,
  id: string,
  generation: number,
): Promise<PingTarget | undefined> {
  const { rows } = await db.query<{
    tenant_id: string;
    url: string;
    metadata: string | null;
    secret: string;
    version: number;
    data_key: string;
  }>({
    name: "load-for-ping",
    text: `SELECT e.tenant_id, e.url, e.metadata, s.secret, s.version, t.data_key FROM endpoints e
      JOIN endpoint_secrets s ON s.endpoint_id = e.id AND s.state = 'CURRENT'
      JOIN tenants t ON t.id = e.tenant_id
      WHERE e.id = $1 AND e.generation = $2 AND e.state = 'PENDING'`,
    values: [id, generation],
  });
  const row = rows[0];
  return row === undefined
    ? undefined
    : {
        tenantId: row.tenant_id,
        url: row.url,
        metadata: row.metadata,
        sealedSecret: row.secret,
        secretVersion: row.version,
        wrappedDataKey: row.data_key,
      };
}

export interface PingRecord {
  readonly id: string;
  readonly generation: number;
  readonly now: Date;
  /** Null when the ping was acknowledged. */
  readonly error: string | null;
  readonly verifiedBy: "status" | "echo" | null;
  readonly nextAttemptAt: Date | null;
}

/**
 * Books a ping. A late answer cannot activate an endpoint that was changed, deleted or disabled meanwhile: the
 * generation and the state guard the update.
 *
 * @returns false when the endpoint does not wait for this ping any more
 */
export async function recordPing(db: Queryable, ping: PingRecord): Promise<boolean> {
  const { rowCount } = await db.query({
    name: "record-ping",
    text: `UPDATE endpoints SET
        state = CASE WHEN $4::text IS NULL THEN 'ACTIVE' ELSE state END,
        verification_state = CASE WHEN $4::text IS NULL THEN 'VERIFIED' WHEN $6::timestamptz IS NULL THEN 'EXHAUSTED' ELSE 'RUNNING' END,
        verification_attempts = verification_attempts + 1,
        verification_last_error = $4,
        verification_next_attempt_at = $6,
        verified_at = CASE WHEN $4::text IS NULL THEN $3::timestamptz ELSE verified_at END,
        verified_by = coalesce($5, verified_by),
        updated_at = $3
      WHERE id = $1 AND generation = $2 AND state = 'PENDING'`,
    values: [ping.id, ping.generation, ping.now, ping.error, ping.verifiedBy, ping.nextAttemptAt],
  });
  return rowCount === 1;
}

/** The sealed first secret, for the answer to a repeated registration. */
export async function loadFirstSecret(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<string | undefined> {
  const { rows } = await db.query<{ secret: string }>({
    name: "load-first-secret",
    text: "SELECT secret FROM endpoint_secrets WHERE endpoint_id = $1 AND tenant_id = $2 AND version = 1 AND secret <> ''",
    values: [id, tenantId],
  });
  return rows[0]?.secret;
}
