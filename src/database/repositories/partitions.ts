import { DAY_MS, utcDay } from "../../domain/ids.ts";
import type { Queryable } from "../pool.ts";

/** Yesterday, today and tomorrow. Statements are planned over every partition, so empty ones cost at each start. */
const DAYS = 3;

/**
 * Creates the missing day partitions from yesterday to tomorrow. Returns their number. If no worker runs for a day, rows
 * of a day without a partition go to the default partition and stay there.
 */
export async function ensurePartitions(db: Queryable, nowMs: number): Promise<number> {
  const { rows } = await db.query<{ made: number }>({
    text: "SELECT ensure_day_partitions($1, $2) AS made",
    values: [utcDay(nowMs - DAY_MS), DAYS],
  });
  return rows[0]?.made ?? 0;
}

/** Returns the days that have partitions, `YYYY-MM-DD`, oldest first. */
export async function partitionDays(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ day: string }>("SELECT partition_days() AS day");
  return rows.map((row) => row.day);
}

/** Drops one day after moving open rows to the default partitions. Returns false if the day did not exist. */
export async function dropDay(db: Queryable, day: string, now: Date): Promise<boolean> {
  const { rows } = await db.query<{ dropped: boolean }>("SELECT drop_day_partitions($1, $2) AS dropped", [
    day,
    now,
  ]);
  return rows[0]?.dropped === true;
}

/** Removes finished deliveries of dropped days from the default partitions. Returns their number. */
export async function purgeDefaults(db: Queryable, before: string, limit: number): Promise<number> {
  const { rows } = await db.query<{ gone: number }>("SELECT purge_default_partitions($1, $2) AS gone", [
    before,
    limit,
  ]);
  return rows[0]?.gone ?? 0;
}

/** Removes keys older than an instant. Returns their number. */
export async function forgetIdempotencyKeys(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `DELETE FROM idempotency_keys k USING (
        SELECT tenant_id, route, key FROM idempotency_keys WHERE created_at < $1 ORDER BY created_at LIMIT $2
      ) old WHERE k.tenant_id = old.tenant_id AND k.route = old.route AND k.key = old.key AND k.created_at < $1`,
    [before, limit],
  );
  return rowCount ?? 0;
}
