/** Endpoints and their secrets. */
import {
  type DisabledReason,
  ENDPOINT_MOVES,
  type EndpointMove,
  type EndpointMoveName,
  type EndpointState,
} from "../../../domain/endpoint-state.ts";
import { SignetError } from "../../../domain/errors.ts";
import { isRefusedByState } from "../../errors.ts";
import type { Queryable } from "../../pool.ts";
import { HELD_TENANTS } from "../tenants.ts";

type VerificationState = "WANTED" | "RUNNING" | "VERIFIED" | "EXHAUSTED";

/** Settings of an endpoint by its tenant. */
export interface EndpointSettings {
  readonly url: string;
  readonly eventTypes: readonly string[];
  /** The tenant's JSON text, unchanged. */
  readonly metadata: string | null;
  readonly description: string | null;
  /** JSON text of the filter for events; null if all are accepted. */
  readonly filter: string | null;
  /** JSON text: names and values of additional request headers. */
  readonly headers: string | null;
  /** JSON text: how requests authenticate to the receiver, without secrets. */
  readonly authentication: string | null;
  /** Whether a ping is acknowledged only by an answer that contains the challenge. */
  readonly requireEcho: boolean;
  /** Maximum number of deliveries per second; null for no limit. */
  readonly rateLimit: number | null;
}

export interface Endpoint extends EndpointSettings {
  readonly id: string;
  readonly tenantId: string;
  readonly state: EndpointState;
  readonly disabledReason: DisabledReason | null;
  readonly generation: number;
  /** Number of changes of headers and authentication; null while neither is set. */
  readonly requestVersion: number | null;
  readonly verificationState: VerificationState;
  readonly verificationAttempts: number;
  readonly verificationLastError: string | null;
  readonly verificationNextAttemptAt: Date | null;
  readonly verifiedAt: Date | null;
  readonly verifiedBy: "status" | "echo" | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface EndpointRow {
  id: string;
  tenant_id: string;
  url: string;
  event_types: string[];
  metadata: string | null;
  description: string | null;
  filter: string | null;
  headers: string | null;
  authentication: string | null;
  request_version: number | null;
  require_echo: boolean;
  rate_limit: number | null;
  state: EndpointState;
  disabled_reason: DisabledReason | null;
  generation: number;
  verification_state: VerificationState;
  verification_attempts: number;
  verification_last_error: string | null;
  verification_next_attempt_at: Date | null;
  verified_at: Date | null;
  verified_by: "status" | "echo" | null;
  created_at: Date;
  updated_at: Date;
}

/**
 * SQL condition: whether a delivery `d` still has an endpoint. A delivery to a deleted endpoint would be cancelled. A
 * dead letter stays readable, so it remains one.
 */
export const HAS_ENDPOINT = `EXISTS (
  SELECT FROM endpoints e WHERE e.id = d.endpoint_id AND e.tenant_id = d.tenant_id AND e.state <> 'DELETED'
)`;

/** The columns of an EndpointRow. */
export const ENDPOINT_COLUMNS = `id, tenant_id, url, event_types, metadata, description, filter, headers, authentication, request_version,
  require_echo, rate_limit, state, disabled_reason, generation,
  verification_state, verification_attempts, verification_last_error, verification_next_attempt_at, verified_at, verified_by,
  created_at, updated_at`;

export function toEndpoint(row: EndpointRow): Endpoint {
  return {
    id: row.id,
    tenantId: row.tenant_id,
    url: row.url,
    eventTypes: row.event_types,
    metadata: row.metadata,
    description: row.description,
    filter: row.filter,
    headers: row.headers,
    authentication: row.authentication,
    requestVersion: row.request_version,
    requireEcho: row.require_echo,
    rateLimit: row.rate_limit,
    state: row.state,
    disabledReason: row.disabled_reason,
    generation: row.generation,
    verificationState: row.verification_state,
    verificationAttempts: row.verification_attempts,
    verificationLastError: row.verification_last_error,
    verificationNextAttemptAt: row.verification_next_attempt_at,
    verifiedAt: row.verified_at,
    verifiedBy: row.verified_by,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

export interface NewEndpoint extends EndpointSettings {
  readonly id: string;
  readonly tenantId: string;
  readonly sealedSecret: string;
  readonly secretFingerprint: string;
  readonly now: Date;
}

/** Inserts an unverified endpoint with its first secret. Must run inside a tenant transaction. */
export async function insertEndpoint(db: Queryable, endpoint: NewEndpoint): Promise<Endpoint> {
  const { rows } = await db.query<EndpointRow>({
    name: "insert-endpoint",
    text: `INSERT INTO endpoints (id, tenant_id, url, event_types, metadata, description, filter, headers, authentication,
        request_version, require_echo, rate_limit, state, verification_state, verification_requested_at, created_at, updated_at)
      VALUES ($1, $2, $3, $4, $5, $6, $8, $9, $10,
        CASE WHEN coalesce($9::text, $10::text) IS NOT NULL THEN 1 END, $11, $12, 'PENDING', 'WANTED', $7, $7, $7) RETURNING ${ENDPOINT_COLUMNS}`,
    values: [
      endpoint.id,
      endpoint.tenantId,
      endpoint.url,
      endpoint.eventTypes,
      endpoint.metadata,
      endpoint.description,
      endpoint.now,
      endpoint.filter,
      endpoint.headers,
      endpoint.authentication,
      endpoint.requireEcho,
      endpoint.rateLimit,
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
        detail:
          "The tenant is on hold: its endpoints' secrets cannot change, and new ones cannot be created.",
        cause: error,
      });
    }
    throw error;
  }
}

/**
 * Locks the number of the tenant's endpoints, so that concurrent requests cannot exceed the limit. Returns the number.
 */
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
    text: `SELECT ${ENDPOINT_COLUMNS} FROM endpoints WHERE id = $1 AND tenant_id = $2 AND state <> 'DELETED'`,
    values: [id, tenantId],
  });
  return rows[0] === undefined ? undefined : toEndpoint(rows[0]);
}

/** Like {@link findEndpoint}, but locks the row until the transaction ends. */
export async function lockEndpoint(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<Endpoint | undefined> {
  const { rows } = await db.query<EndpointRow>({
    name: "lock-endpoint",
    text: `SELECT ${ENDPOINT_COLUMNS} FROM endpoints WHERE id = $1 AND tenant_id = $2 AND state <> 'DELETED' FOR UPDATE`,
    values: [id, tenantId],
  });
  return rows[0] === undefined ? undefined : toEndpoint(rows[0]);
}

export interface EndpointPage {
  readonly state?: EndpointState | undefined;
  /** Members that the metadata must have, as text. */
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly before: string | undefined;
  readonly limit: number;
}

/** Returns endpoints, newest first, after `before` if given. */
export async function listEndpoints(
  db: Queryable,
  tenantId: string,
  { state, metadata, before, limit }: EndpointPage,
): Promise<Endpoint[]> {
  const { rows } = await db.query<EndpointRow>({
    name: "list-endpoints",
    text: `SELECT ${ENDPOINT_COLUMNS} FROM endpoints
      WHERE tenant_id = $1 AND state <> 'DELETED' AND ($2::text IS NULL OR id < $2)
        AND ($4::jsonb IS NULL OR metadata_matches(metadata, $4)) AND ($5::text IS NULL OR state = $5) ORDER BY id DESC LIMIT $3`,
    values: [
      tenantId,
      before ?? null,
      limit,
      metadata === undefined ? null : JSON.stringify(metadata),
      state ?? null,
    ],
  });
  return rows.map(toEndpoint);
}

/** An endpoint and the current time. */
export interface EndpointAt {
  readonly tenantId: string;
  readonly id: string;
  readonly now: Date;
}

/** Stores a tenant's settings. A resulting change of state is a separate move. */
export async function saveSettings(
  db: Queryable,
  { tenantId, id, now }: EndpointAt,
  settings: EndpointSettings,
): Promise<Endpoint | undefined> {
  const { rows } = await db.query<EndpointRow>({
    name: "save-endpoint-settings",
    text: `UPDATE endpoints SET url = $4, event_types = $5, metadata = $6, description = $7, filter = $8, updated_at = $3,
        headers = $9, authentication = $10, require_echo = $11, rate_limit = $12,
        request_version = CASE WHEN (headers, authentication) IS DISTINCT FROM ($9::text, $10::text)
          THEN coalesce(request_version, 0) + 1 ELSE request_version END
      WHERE id = $1 AND tenant_id = $2 AND state <> 'DELETED' RETURNING ${ENDPOINT_COLUMNS}`,
    values: [
      id,
      tenantId,
      now,
      settings.url,
      settings.eventTypes,
      settings.metadata,
      settings.description,
      settings.filter,
      settings.headers,
      settings.authentication,
      settings.requireEcho,
      settings.rateLimit,
    ],
  });
  return rows[0] === undefined ? undefined : toEndpoint(rows[0]);
}

/**
 * Moves an endpoint to another state. If it becomes PENDING, a ping is requested and earlier results are cleared.
 *
 * @returns undefined if the move does not apply to the endpoint's state
 */
export async function moveEndpoint(
  db: Queryable,
  { tenantId, id, now }: EndpointAt,
  name: EndpointMoveName,
): Promise<Endpoint | undefined> {
  const { from, to, newGeneration }: EndpointMove = ENDPOINT_MOVES[name];
  const { rows } = await db.query<EndpointRow>({
    name: "move-endpoint",
    text: `UPDATE endpoints SET state = $5, disabled_reason = $6, generation = generation + $7::int, updated_at = $3,
        verification_next_attempt_at = NULL,
        deleted_at = CASE WHEN $5 = 'DELETED' THEN $3::timestamptz END,
        verification_state = CASE WHEN $5 = 'PENDING' THEN 'WANTED' ELSE verification_state END,
        verification_requested_at = CASE WHEN $5 = 'PENDING' THEN $3::timestamptz ELSE verification_requested_at END,
        verification_attempts = CASE WHEN $5 = 'PENDING' THEN 0 ELSE verification_attempts END,
        verification_last_error = CASE WHEN $5 <> 'PENDING' THEN verification_last_error END,
        verified_at = CASE WHEN $5 <> 'PENDING' THEN verified_at END,
        verified_by = CASE WHEN $5 <> 'PENDING' THEN verified_by END
      WHERE id = $1 AND tenant_id = $2 AND state = ANY($4) RETURNING ${ENDPOINT_COLUMNS}`,
    values: [id, tenantId, now, from, to.state, to.disabledReason, Number(newGeneration)],
  });
  return rows[0] === undefined ? undefined : toEndpoint(rows[0]);
}

/**
 * Deletes old tombstones and everything that depends on them, except for tenants on hold, whose deliveries need them.
 */
export async function purgeTombstones(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query({
    name: "purge-tombstones",
    text: `DELETE FROM endpoints WHERE state = 'DELETED' AND id IN (
        SELECT id FROM endpoints WHERE state = 'DELETED' AND deleted_at < $1 AND tenant_id NOT IN ${HELD_TENANTS}
        ORDER BY deleted_at LIMIT $2)`,
    values: [before, limit],
  });
  return rowCount ?? 0;
}

/** Erases the secrets of a deleted endpoint. */
export async function eraseSecrets(db: Queryable, { tenantId, id, now }: EndpointAt): Promise<void> {
  await db.query({
    name: "erase-endpoint-secrets",
    text: `UPDATE endpoint_secrets SET secret = '', signing_key = NULL, encrypted_secret = NULL, state = 'RETIRED', retired_at = coalesce(retired_at, $3)
      WHERE endpoint_id = $1 AND tenant_id = $2`,
    values: [id, tenantId, now],
  });
}

/** Returns the sealed first secret, for the answer to a repeated registration. */
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
