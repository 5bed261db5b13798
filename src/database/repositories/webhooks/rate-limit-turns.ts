/** Queues of rate-limited endpoints, across all workers: when each attempt may start. */
import type { Queryable } from "#database/pool.ts";

/** Numbers of attempts of one endpoint that need an instant. */
export interface TurnRequest {
  readonly endpointId: string;
  /** Rate limit, in attempts per second. */
  readonly rateLimit: number;
  /** Number of attempts that ask for the first time. */
  readonly fresh: number;
  /** Number of attempts that missed their instant. */
  readonly late: number;
}

/** The first instant of each kind, in Unix milliseconds. Later ones follow at the rate of the limit. */
export interface Turn {
  readonly freshFromMs: number;
  readonly lateFromMs: number;
}

/**
 * Assigns the next instants of each queue, each endpoint once. Late attempts precede new ones and delay them by their
 * own share. Instants already assigned do not change. A changed limit starts a new queue.
 *
 * Does not wait for the disk: a crash of PostgreSQL may undo the newest instants, which are then assigned again.
 */
export async function takeTurns(
  db: Queryable,
  requests: readonly TurnRequest[],
  nowMs: number,
): Promise<Map<string, Turn>> {
  const { rows } = await db.query<{
    endpoint_id: string;
    rate_limit: number;
    free_at_ms: number;
    late_free_at_ms: number;
  }>({
    name: "take-turns",
    text: `WITH wanted AS MATERIALIZED (
        SELECT endpoint_id, rate_limit, fresh, late, set_config('synchronous_commit', 'off', true)
        FROM unnest($1::text[], $2::int[], $3::int[], $4::int[]) AS w(endpoint_id, rate_limit, fresh, late)
        -- The order prevents deadlocks.
        ORDER BY endpoint_id
      )
      INSERT INTO endpoint_lines AS line (endpoint_id, rate_limit, free_at_ms, late_free_at_ms)
      SELECT endpoint_id, rate_limit, $5::float8 + (fresh + late) * 1000.0::float8 / rate_limit,
        $5::float8 + late * 1000.0::float8 / rate_limit
      FROM wanted
      ON CONFLICT (endpoint_id) DO UPDATE SET
        rate_limit = excluded.rate_limit,
        free_at_ms = excluded.free_at_ms
          + CASE WHEN line.rate_limit = excluded.rate_limit THEN greatest(line.free_at_ms - $5::float8, 0) ELSE 0 END,
        late_free_at_ms = excluded.late_free_at_ms
          + CASE WHEN line.rate_limit = excluded.rate_limit THEN greatest(line.late_free_at_ms - $5::float8, 0) ELSE 0 END
      RETURNING endpoint_id, rate_limit, free_at_ms, late_free_at_ms`,
    values: [
      requests.map((request) => request.endpointId),
      requests.map((request) => request.rateLimit),
      requests.map((request) => request.fresh),
      requests.map((request) => request.late),
      nowMs,
    ],
  });
  const wanted = new Map(requests.map((request) => [request.endpointId, request]));
  return new Map(
    rows.map((row) => {
      const { fresh = 0, late = 0 } = wanted.get(row.endpoint_id) ?? {};
      const stepMs = 1_000 / row.rate_limit;
      return [
        row.endpoint_id,
        {
          freshFromMs: row.free_at_ms - fresh * stepMs,
          lateFromMs: row.late_free_at_ms - late * stepMs,
        },
      ];
    }),
  );
}
