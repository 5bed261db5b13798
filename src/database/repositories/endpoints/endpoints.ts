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

/** What a tenant sets, when it registers an endpoint and afterwards. */
export interface EndpointSettings {
  readonly url: string;
  readonly eventTypes: readonly string[];
  /** JSON text as the tenant wrote it. */
  readonly metadata: string | null;
  readonly description: string | null;
  /** JSON text of the filter that events must pass; null where all are taken. */
  readonly filter: string | null;
  /** JSON text: names and values of headers that requests carry besides ours. */
  readonly headers: string | null;
  /** JSON text: how requests authenticate to the receiver, without the secrets. */
  readonly authentication: string | null;
  /** Whether only an answer that holds the challenge acknowledges a ping. */
  readonly requireEcho: boolean;
  /** Deliveries per second that it takes at most; null for no limit. */
  readonly rateLimit: number | null;
}

export interface Endpoint extends EndpointSettings {
  readonly id: string;
  readonly tenantId: string;
  readonly state: EndpointState;
  readonly disabledReason: DisabledReason | null;
  readonly generation: number;
  /** Counts changes of headers and authentication; null until there is one of them. */
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
 * SQL: whether there is somebody to send a delivery `d` to. What is for a deleted endpoint would end cancelled; a dead letter
 * can still be read, so it stays one.
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

/** Inserts an endpoint that waits for its verification, with its first secret. Run inside a tenant transaction. */
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
    text: `SELECT ${ENDPOINT_COLUMNS} FROM endpoints WHERE id = $1 AND tenant_id = $2 AND state <> 'DELETED'`,
    values: [id, tenantId],
  });
  return rows[0] === undefined ? undefined : toEndpoint(rows[0]);
}

/** The same, kept from every other change until the transaction ends. */
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
  /** Members that their metadata have, as text. */
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly before: string | undefined;
  readonly limit: number;
}

/** Newest first, after the endpoint `before` if one is named. */
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

/** One endpoint at one time. */
export interface EndpointAt {
  readonly tenantId: string;
  readonly id: string;
  readonly now: Date;
}

/** Writes what a tenant has set; where that leads is a move of its own. */
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
 * Takes an endpoint from one state to another. One that becomes PENDING wants a ping, of which nothing is known yet.
 *
 * @returns undefined when the move does not lead on from the endpoint's state
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

/** Ends tombstones, with all that hangs on them, but those of held tenants, whose deliveries still ask for them. */
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

/** Overwrites the secrets of an endpoint that has gone. */
export async function eraseSecrets(db: Queryable, { tenantId, id, now }: EndpointAt): Promise<void> {
  await db.query({
    name: "erase-endpoint-secrets",
    text: `UPDATE endpoint_secrets SET secret = '', signing_key = NULL, encrypted_secret = NULL, state = 'RETIRED', retired_at = coalesce(retired_at, $3)
      WHERE endpoint_id = $1 AND tenant_id = $2`,
    values: [id, tenantId, now],
  });
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
