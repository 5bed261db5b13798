/** State shared by the workers: slow endpoints, and live workers. */
import type { Queryable } from "../pool.ts";

export interface StoredHealth {
  readonly endpointId: string;
  readonly latencyMs: number;
  /** Unix milliseconds. */
  readonly slowUntilMs: number;
}

const KNOWN_MAX = 50_000;

/** Stores changes, except those of endpoints deleted meanwhile. */
export async function writeHealth(db: Queryable, changes: readonly StoredHealth[]): Promise<void> {
  if (changes.length === 0) {
    return;
  }
  await db.query({
    name: "write-health",
    text: `INSERT INTO endpoint_health (endpoint_id, latency_ms, slow_until)
      SELECT c.endpoint_id, c.latency_ms, c.slow_until
      FROM unnest($1::text[], $2::int[], $3::timestamptz[]) AS c(endpoint_id, latency_ms, slow_until)
      JOIN endpoints e ON e.id = c.endpoint_id ORDER BY c.endpoint_id
      ON CONFLICT (endpoint_id) DO UPDATE SET latency_ms = excluded.latency_ms, slow_until = excluded.slow_until`,
    values: [
      changes.map((change) => change.endpointId),
      changes.map((change) => change.latencyMs),
      changes.map((change) => new Date(change.slowUntilMs)),
    ],
  });
}

/** Returns the endpoints that are slow now. */
export async function readHealth(db: Queryable, now: Date): Promise<StoredHealth[]> {
  const { rows } = await db.query<{ endpoint_id: string; latency_ms: number; slow_until: Date }>({
    name: "read-health",
    text: "SELECT endpoint_id, latency_ms, slow_until FROM endpoint_health WHERE slow_until > $1 LIMIT $2",
    values: [now, KNOWN_MAX],
  });
  return rows.map((row) => ({
    endpointId: row.endpoint_id,
    latencyMs: row.latency_ms,
    slowUntilMs: row.slow_until.getTime(),
  }));
}

/** The live workers, as one of them sees them. */
export interface LiveWorkers {
  /** Their number, with this one. */
  readonly live: number;
  /** Number of live workers with a smaller id. */
  readonly rank: number;
}

/** Records that this worker lives. @returns the live workers, and those not seen since `deadBefore` */
export async function beatWorker(
  db: Queryable,
  {
    id,
    now,
    deadBefore,
    attemptsPerSecond = 0,
  }: {
    readonly id: string;
    readonly now: Date;
    readonly deadBefore: Date;
    readonly attemptsPerSecond?: number;
  },
): Promise<LiveWorkers & { readonly dead: readonly string[] }> {
  const { rows } = await db.query<LiveWorkers & { dead: string[] }>({
    name: "beat-worker",
    // A beat does not wait for the disk: a crash of PostgreSQL may undo the latest, and the next is due in a second.
    text: `WITH hurry AS MATERIALIZED (
        SELECT set_config('synchronous_commit', 'off', true)
      ), beat AS (
        INSERT INTO workers (id, seen_at, attempts_per_second) SELECT $1, $2, $4 FROM hurry
        ON CONFLICT (id) DO UPDATE
          SET seen_at = excluded.seen_at, attempts_per_second = excluded.attempts_per_second
      ), others AS (
        SELECT id, seen_at >= $3 AS lives FROM workers WHERE id <> $1
      )
      SELECT 1 + (count(*) FILTER (WHERE lives))::int AS live, (count(*) FILTER (WHERE lives AND id < $1))::int AS rank,
        coalesce(array_agg(id) FILTER (WHERE NOT lives), '{}') AS dead
      FROM others`,
    values: [id, now, deadBefore, attemptsPerSecond],
  });
  return rows[0] ?? { live: 1, rank: 0, dead: [] };
}

/** Removes ended workers that hold no claims. */
export async function removeWorkers(db: Queryable, ids: readonly string[]): Promise<void> {
  await db.query({
    name: "remove-workers",
    text: "DELETE FROM workers WHERE id = ANY ($1::text[])",
    values: [ids],
  });
}

/** Returns until when the deliveries of slow endpoints leave one after another, by id (role signet_operator). */
export async function findSlow(
  db: Queryable,
  endpointIds: readonly string[],
  now: Date,
): Promise<ReadonlyMap<string, Date>> {
  const { rows } = await db.query<{ id: string; until: Date }>({
    name: "find-slow-endpoints",
    text: `SELECT endpoint_id AS id, slow_until AS until FROM endpoint_health
      WHERE endpoint_id = ANY ($1::text[]) AND slow_until > $2`,
    values: [endpointIds, now],
  });
  return new Map(rows.map(({ id, until }) => [id, until]));
}
