/**
 * Instants that lie further ahead than they ever can, brought back to the present (decision 25): those that a process of
 * 0.2.0 stamped by a wrong clock, or any process before PostgreSQL's own clock went back. What waits for them is due.
 */
import { CLOCK_SKEW_MAX_MS } from "../../database-clock.ts";
import type { Queryable } from "../../pool.ts";

interface Repair {
  readonly name: string;
  /** How far ahead the instant may rightly be, milliseconds. */
  readonly longestMs: number;
  /** $1 the present, $2 the instant beyond which none can be, $3 the most rows. */
  readonly text: string;
}

const ROWS_MAX = 5_000;
/** endpoint-health.ts calls an endpoint slow for so long. */
const SLOW_MS = 60_000;
/** A grade's lease, as grade-runner.ts makes it. */
const GRADE_MS = 150_000;
/** dead-letter-counts.ts waits for the end of the minute, and 5 seconds. */
const NOTICE_MS = 65_000;

/** Each reads the beginning or the end of an index, or a small table. */
const REPAIRS: readonly Repair[] = [
  {
    name: "future-claims",
    longestMs: 0,
    // What waits for the rate limit of its endpoint counts as claimed when its place comes.
    text: `WITH future AS (
        SELECT d.day, d.id FROM deliveries d JOIN endpoints p ON p.id = d.endpoint_id
        WHERE d.carrier IS NOT NULL AND d.state = 'QUEUED' AND d.claimed_at > $2 AND p.rate_limit IS NULL
        LIMIT $3 FOR UPDATE OF d SKIP LOCKED
      )
      UPDATE deliveries d SET claimed_at = $1 FROM future f WHERE d.day = f.day AND d.id = f.id`,
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

/** A cycle begins with its first attempt: one that begins in the future was stamped wrongly, and so is what follows. */
const FUTURE_CYCLES: Repair = {
  name: "future-cycles",
  longestMs: 0,
  // Due for a minute: the reconciliation hurries workflows that are as late as that.
  text: `WITH future AS (
      SELECT day, id FROM deliveries WHERE state = 'RETRYING' AND cycle_started_at > $2
      LIMIT $3 FOR UPDATE SKIP LOCKED
    )
    UPDATE deliveries d SET cycle_started_at = $1, next_attempt_at = $1::timestamptz - interval '61 seconds'
    FROM future f WHERE d.day = f.day AND d.id = f.id`,
};

async function repair(db: Queryable, { name, longestMs, text }: Repair, nowMs: number): Promise<number> {
  const beyond = new Date(nowMs + longestMs + CLOCK_SKEW_MAX_MS);
  const { rowCount } = await db.query({ name, text, values: [new Date(nowMs), beyond, ROWS_MAX] });
  return rowCount ?? 0;
}

/** Brings instants back that workers wait for (role signet_worker); how many. */
export async function bringBackInstants(db: Queryable, nowMs: number): Promise<number> {
  let count = 0;
  for (const each of REPAIRS) {
    count += await repair(db, each, nowMs);
  }
  return count;
}

/** Brings retries back whose cycle begins in the future. Reads every open retry (role signet_worker); how many. */
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
