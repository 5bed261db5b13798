/**
 * Corrects instants that are impossibly far in the future (decision 25). They were stamped by a process of 0.2.0 with a
 * wrong clock, or by any process before PostgreSQL's own clock went back. Work that waits for them becomes due.
 */
import type { Logger } from "pino";
import { CLOCK_SKEW_MAX_MS } from "#database/database-clock.ts";
import type { Queryable } from "#database/pool.ts";
import { queryInTurn } from "#database/transaction.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { chosenRows } from "./claims.ts";

const EVERY_MS = 20_000;

interface Repair {
  readonly name: string;
  /** How far ahead the instant may legitimately be, in milliseconds. */
  readonly longestMs: number;
  /** $1 is the current time, $2 the latest plausible instant, $3 the maximum number of rows. */
  readonly text: string;
}

const ROWS_MAX = 5_000;
/** How long endpoint-health.ts marks an endpoint as slow. */
const SLOW_MS = 60_000;
/** Lease of a grade in grade-runner.ts. */
const GRADE_MS = 150_000;
/** Longest delay of a notice in dead-letter-counts.ts: to the end of the minute, and 5 seconds. */
const NOTICE_MS = 65_000;

/** Each query reads the start or the end of an index, or a small table. */
const REPAIRS: readonly Repair[] = [
  {
    name: "future-claims",
    longestMs: 0,
    // Deliveries that wait for their endpoint's rate limit count as claimed at their place's time.
    text: `WITH future AS (
        SELECT d.day, d.id FROM deliveries d JOIN endpoints p ON p.id = d.endpoint_id
        WHERE d.carrier IS NOT NULL AND d.state = 'QUEUED' AND d.claimed_at > $2 AND p.rate_limit IS NULL
        LIMIT $3 FOR UPDATE OF d SKIP LOCKED
      ), ${chosenRows(["day", "id"], "future")}
      UPDATE deliveries d SET claimed_at = $1 FROM chosen c WHERE d.day = c.day AND d.id = c.id`,
  },
  {
    name: "future-lists",
    longestMs: 0,
    text: `UPDATE unstarted_lists SET opened_at = $1 WHERE carrier IN (
        SELECT carrier FROM unstarted_lists WHERE opened_at > $2 LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  },
  {
    name: "future-grades",
    longestMs: GRADE_MS,
    text: `UPDATE endpoint_grades SET lease_until = $1 WHERE id IN (
        SELECT id FROM endpoint_grades WHERE state = 'RUNNING' AND lease_until > $2 LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  },
  {
    name: "future-replay-jobs",
    longestMs: 0,
    text: `UPDATE replay_jobs SET touched_at = $1 WHERE id IN (
        SELECT id FROM replay_jobs WHERE state = 'RUNNING' AND touched_at > $2 LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  },
  {
    name: "future-verifications",
    longestMs: 0,
    text: `UPDATE endpoints SET verification_requested_at = $1 WHERE id IN (
        SELECT id FROM endpoints WHERE verification_state = 'WANTED' AND state = 'PENDING'
          AND verification_requested_at > $2 LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  },
  {
    name: "future-health",
    longestMs: SLOW_MS,
    text: `UPDATE endpoint_health SET slow_until = $1 WHERE endpoint_id IN (
        SELECT endpoint_id FROM endpoint_health WHERE slow_until > $2 LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  },
  {
    name: "future-workers",
    longestMs: 0,
    text: `UPDATE workers SET seen_at = $1 WHERE id IN (
        SELECT id FROM workers WHERE seen_at > $2 LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  },
  {
    name: "future-pings",
    longestMs: 0,
    text: `UPDATE pinged_hosts SET since = $1 WHERE host IN (
        SELECT host FROM pinged_hosts WHERE since > $2 LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  },
  {
    name: "future-notices",
    longestMs: NOTICE_MS,
    text: `UPDATE dead_letter_notices SET due_at = $1 WHERE (kind, endpoint_id, bucket) IN (
        SELECT kind, endpoint_id, bucket FROM dead_letter_notices WHERE due_at > $2
        LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  },
];

/** A cycle begins with its first attempt, so one that begins in the future has wrong instants throughout. */
const FUTURE_CYCLES: Repair = {
  name: "future-cycles",
  longestMs: 0,
  // Due by a minute, which makes the reconciliation bring the workflow forward.
  text: `WITH future AS (
      SELECT day, id FROM deliveries WHERE state = 'RETRYING' AND cycle_started_at > $2
      ORDER BY tenant_id, day, id LIMIT $3 FOR UPDATE SKIP LOCKED
    ), ${chosenRows(["day", "id"], "future")}
    UPDATE deliveries d SET cycle_started_at = $1, next_attempt_at = $1::timestamptz - interval '61 seconds'
    FROM chosen c WHERE d.day = c.day AND d.id = c.id`,
};

async function repair(db: Queryable, { name, longestMs, text }: Repair, nowMs: number): Promise<number> {
  const beyond = new Date(nowMs + longestMs + CLOCK_SKEW_MAX_MS);
  const { rowCount } = await queryInTurn(db, { name, text, values: [new Date(nowMs), beyond, ROWS_MAX] });
  return rowCount ?? 0;
}

/** Corrects the instants that workers wait for (role signet_worker). Returns their number. */
export async function bringBackInstants(db: Queryable, nowMs: number): Promise<number> {
  let count = 0;
  for (const each of REPAIRS) {
    count += await repair(db, each, nowMs);
  }
  return count;
}

/**
 * Corrects retries whose cycle begins in the future. Scans every open retry (role signet_worker). Returns their number.
 */
export async function bringBackCycles(db: Queryable, nowMs: number): Promise<number> {
  let count = 0;
  for (;;) {
    const some = await repair(db, FUTURE_CYCLES, nowMs);
    count += some;
    if (some < ROWS_MAX) {
      return count;
    }
  }
}

export interface FutureInstantsOptions {
  /** Role signet_worker. */
  readonly pool: Queryable;
  readonly clock: Clock;
  readonly timers: Pick<Timers, "monotonic">;
  readonly log: Logger;
}

/** Returns the job that brings impossible instants back; retries only when some may exist, since that reads them all. */
export function futureInstantsJob({ pool, clock, timers, log }: FutureInstantsOptions): UpkeepJob {
  let offsetMs = Number.POSITIVE_INFINITY;
  return {
    name: "future instants",
    everyMs: EVERY_MS,
    run: async () => {
      const nowMs = clock.now();
      let count = await bringBackInstants(pool, nowMs);
      const before = offsetMs;
      offsetMs = nowMs - timers.monotonic();
      if (offsetMs < before - CLOCK_SKEW_MAX_MS) {
        count += await bringBackCycles(pool, nowMs);
      }
      if (count > 0) {
        log.warn({ count }, "reset future instants written by a wrong clock");
      }
    },
  };
}
