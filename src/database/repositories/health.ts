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
  { id, now, deadBefore }: { readonly id: string; readonly now: Date; readonly deadBefore: Date },
): Promise<LiveWorkers & { readonly dead: readonly string[] }> {
  const { rows } = await db.query<LiveWorkers & { dead: string[] }>({
    name: "beat-worker",
    // A beat does not wait for the disk: a crash of PostgreSQL may undo the latest, and the next is due in a second.
    text: `WITH hurry AS MATERIALIZED (
        SELECT set_config('synchronous_commit', 'off', true)
      ), beat AS (
        INSERT INTO workers (id, seen_at) SELECT $1, $2 FROM hurry
        ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
      ), others AS (
        SELECT id, seen_at >= $3 AS lives FROM workers WHERE id <> $1
      )
      SELECT 1 + (count(*) FILTER (WHERE lives))::int AS live, (count(*) FILTER (WHERE lives AND id < $1))::int AS rank,
        coalesce(array_agg(id) FILTER (WHERE NOT lives), '{}') AS dead
      FROM others`,
    values: [id, now, deadBefore],
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

/** What workers know of an endpoint. */
export interface EndpointTrouble {
  /** Until when its deliveries take the slow lane; null if it was never slow. */
  readonly slowUntil: Date | null;
  /** When its failures began, since its last success; null if it does not fail. */
  readonly failingSince: Date | null;
}

export const NO_TROUBLE: EndpointTrouble = { slowUntil: null, failingSince: null };

/** Returns the troubles of endpoints that have any, by id (role signet_operator). */
export async function findTroubles(
  db: Queryable,
  endpointIds: readonly string[],
): Promise<ReadonlyMap<string, EndpointTrouble>> {
  const { rows } = await db.query<EndpointTrouble & { readonly id: string }>({
    name: "find-endpoint-troubles",
    text: `SELECT w.id, h.slow_until AS "slowUntil", f.failing_since AS "failingSince" FROM unnest($1::text[]) AS w(id)
      LEFT JOIN endpoint_health h ON h.endpoint_id = w.id LEFT JOIN endpoint_failures f ON f.endpoint_id = w.id
      WHERE h.endpoint_id IS NOT NULL OR f.endpoint_id IS NOT NULL`,
    values: [endpointIds],
  });
  return new Map(rows.map(({ id, ...trouble }) => [id, trouble]));
}
