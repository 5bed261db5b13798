/** Endpoints and their secrets. */
import {
  ENDPOINT_MOVES,
  type EndpointMove,
  type EndpointMoveName,
  type EndpointState,
} from "#domain/endpoint-state.ts";
import type { ShownHealth } from "#domain/endpoint-health.ts";
import { ENDPOINT_SETTINGS, type EndpointSettings } from "#domain/endpoint-settings.ts";
import { lockName } from "#database/lock-name.ts";
import type { Queryable } from "#database/pool.ts";
import type { Row } from "#database/rows.ts";
import { raw, sql, type Statement } from "#database/sql.ts";
import { HELD_TENANTS } from "../tenants.ts";
import { unlessHeld } from "./unless-held.ts";

/** Columns that decide how requests are made. */
export const REQUEST_COLUMNS = [
  // Number of changes of headers and authentication; null while neither is set.
  "request_version",
  // The stream of security events whose tokens it gets, instead of webhooks; null for other endpoints.
  "ssf_stream",
] as const;

/** Columns that a tenant does not set. */
const STATE_COLUMNS = [
  "id",
  "tenant_id",
  ...REQUEST_COLUMNS,
  "state",
  "disabled_reason",
  "generation",
  "verification_state",
  "verification_attempts",
  "verification_last_error",
  "verification_next_attempt_at",
  "verified_at",
  "verified_by",
  "created_at",
  "updated_at",
] as const;

export interface Endpoint extends EndpointSettings, Row<"endpoints", (typeof STATE_COLUMNS)[number]> {
  readonly verified_by: "status" | "echo" | null;
}

/** What stands against a further attempt of a delivery at its endpoint. */
export type EndpointAgainst = "endpoint_disabled" | "endpoint_unavailable";

/** SQL condition: whether an endpoint `e` takes first attempts, as `stepWhenDue` decides. */
const TAKES_NEW = "e.state = 'ACTIVE' OR (e.state = 'PENDING' AND e.verification_state <> 'EXHAUSTED')";
/** The same for an attempt of a cycle that has begun: these continue at an endpoint that was disabled for failing. */
const TAKES_BEGUN = `${TAKES_NEW} OR (e.state = 'DISABLED' AND e.disabled_reason = 'failing')`;

/**
 * Returns an SQL expression: what stands against a further attempt of a delivery `d`, an {@link EndpointAgainst}; null if
 * nothing does. At an endpoint that is disabled, or has failed its verification, it would be a dead letter at once.
 *
 * @param begun whether the attempt belongs to a cycle that has begun
 */
export function endpointAgainst(begun: boolean): string {
  return `(SELECT CASE WHEN count(*) FILTER (WHERE e.state <> 'DELETED') = 0 THEN 'endpoint_unavailable'
    WHEN bool_or(${begun ? TAKES_BEGUN : TAKES_NEW}) THEN NULL ELSE 'endpoint_disabled' END
    FROM endpoints e WHERE e.id = d.endpoint_id AND e.tenant_id = d.tenant_id)`;
}

/** Returns an SQL query of the ids of a tenant's endpoints at which nothing stands against a further attempt. */
export function endpointsThatTake(tenantId: string, begun: boolean): Statement {
  return sql`SELECT e.id FROM endpoints e WHERE e.tenant_id = ${tenantId} AND (${raw(begun ? TAKES_BEGUN : TAKES_NEW)})`;
}

/** An endpoint and the current time. */
export interface EndpointAt {
  readonly tenantId: string;
  readonly id: string;
  readonly now: Date;
}

const SETTING_COLUMNS = raw(ENDPOINT_SETTINGS.map(({ key }) => key).join(", "));

/** The columns of an {@link Endpoint}. */
export const ENDPOINT_COLUMNS = raw(
  [...ENDPOINT_SETTINGS.map(({ key }) => key), ...STATE_COLUMNS].join(", "),
);

export interface NewEndpoint extends EndpointSettings, EndpointAt {
  /** The stream of security events that the endpoint is for. */
  readonly streamId?: string;
  readonly sealedSecret: string;
  readonly secretFingerprint: string;
}

/** Inserts an unverified endpoint with its first secret. Must run inside a tenant transaction. */
export async function insertEndpoint(db: Queryable, endpoint: NewEndpoint): Promise<Endpoint> {
  const { id, tenantId, now, headers, authentication, streamId = null } = endpoint;
  const values = ENDPOINT_SETTINGS.map(({ key }) => sql`${endpoint[key]}`).reduce(
    (list, value) => sql`${list}, ${value}`,
  );
  const { rows } = await db.query<Endpoint>({
    name: "insert-endpoint",
    ...sql`INSERT INTO endpoints (id, tenant_id, ssf_stream, request_version, state, verification_state,
        verification_requested_at, created_at, updated_at, ${SETTING_COLUMNS})
      VALUES (${id}, ${tenantId}, ${streamId}, CASE WHEN coalesce(${headers}::text, ${authentication}::text) IS NOT NULL THEN 1 END,
        'PENDING', 'WANTED', ${now}, ${now}, ${now}, ${values}) RETURNING ${ENDPOINT_COLUMNS}`,
  });
  await insertFirstSecret(db, endpoint);
  return rows[0] as Endpoint;
}

async function insertFirstSecret(
  db: Queryable,
  { id, tenantId, sealedSecret, secretFingerprint, now }: NewEndpoint,
): Promise<void> {
  await unlessHeld("secrets", async () => {
    await db.query({
      name: "insert-endpoint-secret",
      ...sql`INSERT INTO endpoint_secrets (endpoint_id, version, tenant_id, secret, fingerprint, state, created_at)
        VALUES (${id}, 1, ${tenantId}, ${sealedSecret}, ${secretFingerprint}, 'CURRENT', ${now})`,
    });
  });
}

/**
 * Locks the number of the tenant's endpoints, so that concurrent requests cannot exceed the limit. Returns the number.
 */
export async function countEndpoints(db: Queryable, tenantId: string): Promise<number> {
  await lockName(db, `endpoints/${tenantId}`);
  const { rows } = await db.query<{ count: number }>({
    name: "count-endpoints",
    ...sql`SELECT count(*) AS count FROM endpoints WHERE tenant_id = ${tenantId} AND state <> 'DELETED'`,
  });
  return rows[0]?.count ?? 0;
}

export async function findEndpoint(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<Endpoint | undefined> {
  const { rows } = await db.query<Endpoint>({
    name: "find-endpoint",
    ...sql`SELECT ${ENDPOINT_COLUMNS} FROM endpoints WHERE id = ${id} AND tenant_id = ${tenantId} AND state <> 'DELETED'`,
  });
  return rows[0];
}

/** Like {@link findEndpoint}, but locks the row until the transaction ends. */
export async function lockEndpoint(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<Endpoint | undefined> {
  const { rows } = await db.query<Endpoint>({
    name: "lock-endpoint",
    ...sql`SELECT ${ENDPOINT_COLUMNS} FROM endpoints WHERE id = ${id} AND tenant_id = ${tenantId} AND state <> 'DELETED' FOR UPDATE`,
  });
  return rows[0];
}

export interface EndpointPage {
  readonly state?: EndpointState | undefined;
  readonly health?: ShownHealth | undefined;
  /** Members that the metadata must have, as text. */
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly before: string | undefined;
  readonly limit: number;
}

/** Returns endpoints, newest first, after `before` if given. */
export async function listEndpoints(
  db: Queryable,
  tenantId: string,
  { state: given, health: wanted, metadata, before: next, limit }: EndpointPage,
): Promise<Endpoint[]> {
  const state = given ?? null;
  const health = wanted ?? null;
  const before = next ?? null;
  const members = metadata === undefined ? null : JSON.stringify(metadata);
  const { rows } = await db.query<Endpoint>({
    name: "list-endpoints",
    ...sql`SELECT ${ENDPOINT_COLUMNS} FROM endpoints
      WHERE tenant_id = ${tenantId} AND state <> 'DELETED' AND (${before}::text IS NULL OR id < ${before})
        AND (${members}::jsonb IS NULL OR metadata_matches(metadata, ${members}))
        AND (${state}::text IS NULL OR state = ${state})
        AND (${health}::text IS NULL OR ${health} = coalesce(
          (SELECT a.health FROM endpoint_activity a
            WHERE a.endpoint_id = endpoints.id AND endpoints.state <> 'PENDING' AND a.results <> ''), 'unknown'))
      ORDER BY id DESC LIMIT ${limit}`,
  });
  return rows;
}

/** Stores a tenant's settings. A resulting change of state is a separate move. */
export async function saveSettings(
  db: Queryable,
  { tenantId, id, now }: EndpointAt,
  settings: EndpointSettings,
): Promise<Endpoint | undefined> {
  const assignments = ENDPOINT_SETTINGS.reduce(
    (list, { key }) => sql`${list}, ${raw(key)} = ${settings[key]}`,
    sql`updated_at = ${now}`,
  );
  const { rows } = await db.query<Endpoint>({
    name: "save-endpoint-settings",
    ...sql`UPDATE endpoints SET ${assignments}, request_version = CASE
          WHEN (headers, authentication) IS DISTINCT FROM (${settings.headers}::text, ${settings.authentication}::text)
          THEN coalesce(request_version, 0) + 1 ELSE request_version END
      WHERE id = ${id} AND tenant_id = ${tenantId} AND state <> 'DELETED' RETURNING ${ENDPOINT_COLUMNS}`,
  });
  return rows[0];
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
  const { rows } = await db.query<Endpoint>({
    name: "move-endpoint",
    ...sql`UPDATE endpoints SET state = ${to.state}, disabled_reason = ${to.disabled_reason},
        generation = generation + ${Number(newGeneration)}::int, updated_at = ${now},
        verification_next_attempt_at = NULL,
        deleted_at = CASE WHEN ${to.state} = 'DELETED' THEN ${now}::timestamptz END,
        verification_state = CASE WHEN ${to.state} = 'PENDING' THEN 'WANTED' ELSE verification_state END,
        verification_requested_at = CASE WHEN ${to.state} = 'PENDING' THEN ${now}::timestamptz ELSE verification_requested_at END,
        verification_attempts = CASE WHEN ${to.state} = 'PENDING' THEN 0 ELSE verification_attempts END,
        verification_last_error = CASE WHEN ${to.state} <> 'PENDING' THEN verification_last_error END,
        verified_at = CASE WHEN ${to.state} <> 'PENDING' THEN verified_at END,
        verified_by = CASE WHEN ${to.state} <> 'PENDING' THEN verified_by END
      WHERE id = ${id} AND tenant_id = ${tenantId} AND state = ANY(${from}) RETURNING ${ENDPOINT_COLUMNS}`,
  });
  return rows[0];
}

/**
 * Deletes old tombstones and everything that depends on them, except for tenants on hold, whose deliveries need them.
 */
export async function purgeTombstones(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query({
    name: "purge-tombstones",
    ...sql`DELETE FROM endpoints WHERE state = 'DELETED' AND id IN (
        SELECT id FROM endpoints WHERE state = 'DELETED' AND deleted_at < ${before} AND tenant_id NOT IN ${raw(HELD_TENANTS)}
        ORDER BY deleted_at LIMIT ${limit})`,
  });
  return rowCount ?? 0;
}

/** Erases the secrets of a deleted endpoint. */
export async function eraseSecrets(db: Queryable, { tenantId, id, now }: EndpointAt): Promise<void> {
  await db.query({
    name: "erase-endpoint-secrets",
    ...sql`UPDATE endpoint_secrets SET secret = '', signing_key = NULL, encrypted_secret = NULL, state = 'RETIRED',
        retired_at = coalesce(retired_at, ${now})
      WHERE endpoint_id = ${id} AND tenant_id = ${tenantId}`,
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
    ...sql`SELECT secret FROM endpoint_secrets
      WHERE endpoint_id = ${id} AND tenant_id = ${tenantId} AND version = 1 AND secret <> ''`,
  });
  return rows[0]?.secret;
}
