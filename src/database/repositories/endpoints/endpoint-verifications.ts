/** Verification of endpoints by pings: requests, data and results. */
import { ENDPOINT_MOVES } from "#domain/endpoint-state.ts";
import type { Queryable } from "#database/pool.ts";
import type { Row } from "#database/rows.ts";
import { raw, sql } from "#database/sql.ts";
import {
  type EndpointTarget,
  TARGET_COLUMNS,
  TARGET_FROM,
  type TargetColumns,
  withSecrets,
} from "../stored-secrets.ts";
import { type Endpoint, ENDPOINT_COLUMNS, type EndpointAt } from "./endpoints.ts";

const VERIFY = ENDPOINT_MOVES.verify;

/** Requests a ping now. The starter of the workflow, api or sweep, finds the request here. */
export async function wantVerification(
  db: Queryable,
  { tenantId, id, now }: EndpointAt,
): Promise<Endpoint | undefined> {
  const { rows } = await db.query<Endpoint>({
    name: "want-verification",
    ...sql`UPDATE endpoints SET verification_state = 'WANTED', verification_requested_at = ${now},
        generation = CASE WHEN verification_state = 'EXHAUSTED' THEN generation + 1 ELSE generation END
      WHERE id = ${id} AND tenant_id = ${tenantId} AND state = 'PENDING' RETURNING ${ENDPOINT_COLUMNS}`,
  });
  return rows[0];
}

/** Starts a new verification run after a closed one. Returns undefined if the endpoint's state changed meanwhile. */
export async function nextGeneration(
  db: Queryable,
  id: string,
  generation: number,
): Promise<number | undefined> {
  const { rows } = await db.query<{ generation: number }>({
    name: "next-generation",
    ...sql`UPDATE endpoints SET generation = generation + 1, verification_state = 'WANTED'
      WHERE id = ${id} AND generation = ${generation} AND state = 'PENDING' RETURNING generation`,
  });
  return rows[0]?.generation;
}

export interface WantedVerification {
  readonly id: string;
  readonly tenant_id: string;
  readonly generation: number;
}

/**
 * Takes requests older than `before` that no ping has answered, tenants in turns, and marks them as requested `now`.
 */
export async function takeWantedVerifications(
  db: Queryable,
  { before, now, limit }: { readonly before: Date; readonly now: Date; readonly limit: number },
): Promise<WantedVerification[]> {
  const { rows } = await db.query<{ id: string; tenant_id: string; generation: number }>({
    name: "take-wanted-verifications",
    ...sql`WITH turns AS (
        SELECT id, verification_requested_at,
          row_number() OVER (PARTITION BY tenant_id ORDER BY verification_requested_at) AS turn
        FROM endpoints
        WHERE verification_state = 'WANTED' AND state = 'PENDING' AND verification_requested_at < ${before}
      ), wanted AS (
        SELECT id FROM endpoints JOIN turns USING (id) WHERE verification_state = 'WANTED'
        ORDER BY turn, turns.verification_requested_at LIMIT ${limit} FOR UPDATE OF endpoints SKIP LOCKED
      )
      UPDATE endpoints e SET verification_requested_at = ${now} FROM wanted w WHERE e.id = w.id
      RETURNING e.id, e.tenant_id, e.generation`,
  });
  return rows;
}

/** A verification whose next ping is overdue. */
export interface OverdueVerification extends WantedVerification {
  readonly next_attempt_at: Date;
}

export interface OverdueVerificationsQuery {
  /** Pings due before this instant are overdue. */
  readonly before: Date;
  /** The last one of the page before; undefined for the first page. */
  readonly after: OverdueVerification | undefined;
  readonly limit: number;
}

/** Returns a page of verifications whose next ping is overdue, the most overdue first. */
export async function findOverdueVerifications(
  db: Queryable,
  { before, after, limit }: OverdueVerificationsQuery,
): Promise<OverdueVerification[]> {
  const { rows } = await db.query<OverdueVerification>({
    name: "find-overdue-verifications",
    ...sql`SELECT id, tenant_id, generation, verification_next_attempt_at AS next_attempt_at FROM endpoints
      WHERE verification_state = 'RUNNING' AND state = 'PENDING' AND verification_next_attempt_at < ${before}
        AND (verification_next_attempt_at, id) > (${after?.next_attempt_at ?? "-infinity"}::timestamptz, ${after?.id ?? ""})
      ORDER BY verification_next_attempt_at, id LIMIT ${limit}`,
  });
  return rows;
}

/**
 * Requests the next generation of verifications whose workflow is gone, unless a ping was recorded meanwhile: then
 * none is overdue. The sweep starts them.
 *
 * @param before as in the query that found them
 * @returns the number of verifications that go on
 */
export async function restartVerifications(
  db: Queryable,
  lost: readonly WantedVerification[],
  { before, now }: { readonly before: Date; readonly now: Date },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>({
    name: "restart-verifications",
    ...sql`UPDATE endpoints e SET generation = e.generation + 1, verification_state = 'WANTED',
        verification_requested_at = ${now}, verification_next_attempt_at = NULL
      FROM unnest(${lost.map(({ id }) => id)}::text[], ${lost.map(({ generation }) => generation)}::int[]) AS l(id, generation)
      WHERE e.id = l.id AND e.generation = l.generation AND e.verification_state = 'RUNNING' AND e.state = 'PENDING'
        AND e.verification_next_attempt_at < ${before}
      RETURNING e.id`,
  });
  return rows.map(({ id }) => id);
}

/** The data for a ping. */
export interface PingTarget extends EndpointTarget, Row<"endpoints", "require_echo"> {}

/** Returns the endpoint to ping; undefined if it no longer waits for this generation's ping. */
export async function loadForPing(
  db: Queryable,
  id: string,
  generation: number,
): Promise<PingTarget | undefined> {
  const { rows } = await db.query<TargetColumns & Row<"endpoints", "require_echo">>({
    name: "load-for-ping",
    ...sql`SELECT ${raw(TARGET_COLUMNS)}, e.require_echo FROM ${raw(TARGET_FROM)}
      WHERE e.id = ${id} AND e.generation = ${generation} AND e.state = 'PENDING'`,
  });
  return rows[0] === undefined ? undefined : withSecrets(rows[0]);
}

export interface PingRecord {
  readonly id: string;
  readonly generation: number;
  readonly now: Date;
  /** Null if the ping was acknowledged. */
  readonly error: string | null;
  readonly verifiedBy: "status" | "echo" | null;
  readonly nextAttemptAt: Date | null;
}

/**
 * Stores the result of a ping. The conditions on generation and state keep a late answer from activating an endpoint
 * that was changed, deleted or disabled meanwhile.
 *
 * @returns false if the endpoint no longer waits for this ping
 */
export async function recordPing(db: Queryable, ping: PingRecord): Promise<boolean> {
  const { rowCount } = await db.query({
    name: "record-ping",
    ...sql`WITH booked AS (UPDATE endpoints SET
        state = CASE WHEN ${ping.error}::text IS NULL THEN ${VERIFY.to.state} ELSE state END,
        verification_state = CASE WHEN ${ping.error}::text IS NULL THEN 'VERIFIED' WHEN ${ping.nextAttemptAt}::timestamptz IS NULL THEN 'EXHAUSTED' ELSE 'RUNNING' END,
        verification_attempts = verification_attempts + 1,
        verification_last_error = ${ping.error},
        verification_next_attempt_at = ${ping.nextAttemptAt},
        verified_at = CASE WHEN ${ping.error}::text IS NULL THEN ${ping.now}::timestamptz ELSE verified_at END,
        verified_by = coalesce(${ping.verifiedBy}, verified_by),
        updated_at = ${ping.now}
      WHERE id = ${ping.id} AND generation = ${ping.generation} AND state = ANY(${VERIFY.from})
      RETURNING id, state), reached AS (
        DELETE FROM endpoint_failures f USING booked b WHERE f.endpoint_id = b.id AND b.state = ${VERIFY.to.state}
      )
      SELECT id FROM booked`,
  });
  return rowCount === 1;
}

/**
 * Takes one of the pings that a host may get per minute from all tenants together. Minutes start with a host's first
 * ping, so around the end of one minute a host may get twice as many.
 */
export async function takeHostPing(
  db: Queryable,
  host: string,
  { now, since, max }: { readonly now: Date; readonly since: Date; readonly max: number },
): Promise<boolean> {
  const { rowCount } = await db.query({
    name: "take-host-ping",
    ...sql`INSERT INTO pinged_hosts AS h (host, since, pings) VALUES (${host}, ${now}, 1)
      ON CONFLICT (host) DO UPDATE SET
        since = CASE WHEN h.since <= ${since} THEN excluded.since ELSE h.since END,
        pings = CASE WHEN h.since <= ${since} THEN 1 ELSE h.pings + 1 END
      WHERE h.since <= ${since} OR h.pings < ${max}`,
  });
  return rowCount === 1;
}

/** Removes hosts that were not pinged recently. */
export async function forgetPingedHosts(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query({
    name: "forget-pinged-hosts",
    ...sql`DELETE FROM pinged_hosts WHERE host IN (SELECT host FROM pinged_hosts WHERE since < ${before} ORDER BY since LIMIT ${limit})`,
  });
  return rowCount ?? 0;
}
