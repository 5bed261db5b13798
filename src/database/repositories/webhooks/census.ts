/**
 * Counts open work for the metrics. Every count reads the start of a partial index, up to {@link COUNTED_MAX} rows. The
 * cost does not depend on the tables' size, and nothing is read unless the worker measures.
 */
import { DAY_MS } from "#domain/ids.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import { queryInOrder } from "#database/transaction.ts";
import { waitingRetry } from "./list-claims.ts";

/** Limit of the counts. This value means that or more. */
const COUNTED_MAX = 100_000;

/** Open work of the whole deployment. Each count ends at a limit. */
export interface OpenWork {
  /** Deliveries that are accepted, but not claimed by a worker. */
  readonly waiting: number;
  /** Deliveries claimed by a worker, without the outcome of their first attempt. */
  readonly started: number;
  readonly retrying: number;
  readonly dead_letters: number;
  /** Dead letters that expire within a day. */
  readonly expiring: number;
  readonly verifications: number;
  readonly replays_running: number;
  readonly replays_paused: number;
}

/** Counts, and ages in seconds. */
export interface Census extends OpenWork {
  readonly oldest_verification_seconds: number;
  /** Endpoints whose secret should have rotated a day ago. */
  readonly overdue_endpoint_secrets: number;
}

/** {@link OpenWork} as its columns: retries with a workflow, and those that wait for one, are counted apart. */
export type OpenWorkRow = Omit<OpenWork, "retrying"> & {
  readonly carried: number;
  readonly uncarried: number;
};

/**
 * Returns SQL that counts rows up to a limit, in an index's order, so that the planner reads the index and stops at the
 * limit despite wrong statistics.
 */
export function countUpTo(limit: number, table: string, where: string, order: string): string {
  return `(SELECT count(*)::int FROM (SELECT FROM ${table} WHERE ${where} ORDER BY ${order} LIMIT ${limit}) c)`;
}

/** Returns the columns of an {@link OpenWorkRow}. `$1` is the current time, `$2` the one in a day. */
export function openWorkColumns(limit: number): string {
  const deliveries = (where: string, order: string): string => countUpTo(limit, "deliveries", where, order);
  return `${deliveries("carrier IS NULL AND state = 'QUEUED'", "tenant_id")} AS waiting,
  ${deliveries("carrier IS NOT NULL AND state = 'QUEUED'", "claimed_at")} AS started,
  ${deliveries("carrier IS NOT NULL AND state = 'RETRYING'", "next_attempt_at")} AS carried,
  ${deliveries(waitingRetry(false), "tenant_id")} + ${deliveries(waitingRetry(true), "tenant_id")} AS uncarried,
  ${deliveries("state = 'DEAD_LETTERED' AND expires_at > $1", "expires_at")} AS dead_letters,
  ${deliveries("state = 'DEAD_LETTERED' AND expires_at > $1 AND expires_at <= $2", "expires_at")} AS expiring,
  ${countUpTo(limit, "endpoints", "verification_state = 'WANTED' AND state = 'PENDING'", "verification_requested_at")} AS verifications,
  ${countUpTo(limit, "replay_jobs", "finished_at IS NULL AND state = 'RUNNING'", "tenant_id")} AS replays_running,
  ${countUpTo(limit, "replay_jobs", "finished_at IS NULL AND state = 'PAUSED'", "tenant_id")} AS replays_paused`;
}

/** Exported for the test of its plan. */
export const CENSUS = `SELECT ${openWorkColumns(COUNTED_MAX)},
  (SELECT verification_requested_at FROM endpoints WHERE verification_state = 'WANTED' AND state = 'PENDING'
    ORDER BY verification_requested_at LIMIT 1) AS oldest_verification,
  (SELECT count(*)::int FROM (SELECT FROM endpoints e JOIN endpoint_secrets s ON s.endpoint_id = e.id AND s.state = 'CURRENT'
    JOIN tenants t ON t.id = e.tenant_id
    WHERE e.secret_rotation_days IS NOT NULL AND e.state <> 'DELETED' AND t.held_at IS NULL
      AND coalesce(s.current_at, s.created_at) + make_interval(days => e.secret_rotation_days) <= $3
    LIMIT ${COUNTED_MAX}) c) AS overdue_endpoint_secrets`;

interface CensusRow extends OpenWorkRow, Pick<Census, "overdue_endpoint_secrets"> {
  readonly oldest_verification: Date | null;
}

/** Runs the census (role signet_worker). */
export async function readCensus(pool: Pool, nowMs: number): Promise<Census> {
  const rows = await queryInOrder<CensusRow>(pool, {
    name: "census",
    text: CENSUS,
    values: [new Date(nowMs), new Date(nowMs + DAY_MS), new Date(nowMs - DAY_MS)],
  });
  const { carried, uncarried, oldest_verification: oldestVerification, ...counts } = rows[0] as CensusRow;
  const oldestMs = oldestVerification?.getTime() ?? nowMs;
  return {
    ...counts,
    retrying: Math.min(COUNTED_MAX, carried + uncarried),
    oldest_verification_seconds: Math.max(0, nowMs - oldestMs) / 1_000,
  };
}

/** Returns the time of the oldest log entry without a checkpoint; undefined if there is none (role signet_audit). */
export async function oldestUnsigned(db: Queryable): Promise<Date | undefined> {
  const { rows } = await db.query<{ at: Date }>(
    `SELECT at FROM clog WHERE log_id = 1 AND idx >= (
        SELECT coalesce(max(size), 0) FROM (
          SELECT size FROM clog_checkpoint WHERE log_id = 1 ORDER BY seq DESC LIMIT 1
        ) newest
      ) ORDER BY idx LIMIT 1`,
  );
  return rows[0]?.at;
}

/** Whether a current signing key began to sign before this instant (role signet_operator). */
export async function isSigningKeyOlder(db: Queryable, than: Date): Promise<boolean> {
  const { rowCount } = await db.query(
    `SELECT FROM signing_keys
      WHERE (state = 'CURRENT' AND activated_at < $1 OR set_state = 'CURRENT' AND set_activated_at < $1)
        AND revoked_at IS NULL LIMIT 1`,
    [than],
  );
  return rowCount === 1;
}
