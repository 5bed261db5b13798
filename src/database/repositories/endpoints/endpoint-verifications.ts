/** Verification of endpoints by pings: requests, data and results. */
import { ENDPOINT_MOVES } from "../../../domain/endpoint-state.ts";
import type { Queryable } from "../../pool.ts";
import {
  type EndpointTarget,
  TARGET_COLUMNS,
  TARGET_FROM,
  type TargetColumns,
  toTarget,
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
    text: `UPDATE endpoints SET verification_state = 'WANTED', verification_requested_at = $3,
        generation = CASE WHEN verification_state = 'EXHAUSTED' THEN generation + 1 ELSE generation END
      WHERE id = $1 AND tenant_id = $2 AND state = 'PENDING' RETURNING ${ENDPOINT_COLUMNS}`,
    values: [id, tenantId, now],
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

/** Takes requests older than `before` that no ping has answered, and marks them as requested `now`. */
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

/** The data for a ping. */
export interface PingTarget extends EndpointTarget {
  readonly metadata: string | null;
  readonly requireEcho: boolean;
}

/** Returns the endpoint to ping; undefined if it no longer waits for this generation's ping. */
export async function loadForPing(
  db: Queryable,
  id: string,
  generation: number,
): Promise<PingTarget | undefined> {
  const { rows } = await db.query<TargetColumns & { metadata: string | null; require_echo: boolean }>({
    name: "load-for-ping",
    text: `SELECT ${TARGET_COLUMNS}, e.metadata, e.require_echo FROM ${TARGET_FROM}
      WHERE e.id = $1 AND e.generation = $2 AND e.state = 'PENDING'`,
    values: [id, generation],
  });
  const row = rows[0];
  return row === undefined
    ? undefined
    : { ...toTarget(row), metadata: row.metadata, requireEcho: row.require_echo };
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
    text: `WITH booked AS (UPDATE endpoints SET
        state = CASE WHEN $4::text IS NULL THEN $8 ELSE state END,
        verification_state = CASE WHEN $4::text IS NULL THEN 'VERIFIED' WHEN $6::timestamptz IS NULL THEN 'EXHAUSTED' ELSE 'RUNNING' END,
        verification_attempts = verification_attempts + 1,
        verification_last_error = $4,
        verification_next_attempt_at = $6,
        verified_at = CASE WHEN $4::text IS NULL THEN $3::timestamptz ELSE verified_at END,
        verified_by = coalesce($5, verified_by),
        updated_at = $3
      WHERE id = $1 AND generation = $2 AND state = ANY($7)
      RETURNING id, state), reached AS (
        DELETE FROM endpoint_failures f USING booked b WHERE f.endpoint_id = b.id AND b.state = $8
      )
      SELECT id FROM booked`,
    values: [
      ping.id,
      ping.generation,
      ping.now,
      ping.error,
      ping.verifiedBy,
      ping.nextAttemptAt,
      VERIFY.from,
      VERIFY.to.state,
    ],
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
    text: `INSERT INTO pinged_hosts AS h (host, since, pings) VALUES ($1, $2, 1)
      ON CONFLICT (host) DO UPDATE SET
        since = CASE WHEN h.since <= $3 THEN excluded.since ELSE h.since END,
        pings = CASE WHEN h.since <= $3 THEN 1 ELSE h.pings + 1 END
      WHERE h.since <= $3 OR h.pings < $4`,
    values: [host, now, since, max],
  });
  return rowCount === 1;
}

/** Removes hosts that were not pinged recently. */
export async function forgetPingedHosts(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query({
    name: "forget-pinged-hosts",
    text: "DELETE FROM pinged_hosts WHERE host IN (SELECT host FROM pinged_hosts WHERE since < $1 ORDER BY since LIMIT $2)",
    values: [before, limit],
  });
  return rowCount ?? 0;
}
