import type { Queryable } from "../pool.ts";

const DAYS_AHEAD = 7;
const DAY_MS = 86_400_000;

/** Makes the day partitions from yesterday to a week ahead; those that exist are left alone. */
export async function ensurePartitions(db: Queryable, nowMs: number): Promise<number> {
  const yesterday = new Date(nowMs - DAY_MS).toISOString().slice(0, 10);
  const { rows } = await db.query<{ made: number }>({
    text: "SELECT ensure_day_partitions($1, $2) AS made",
    values: [yesterday, DAYS_AHEAD + 2],
  });
  return rows[0]?.made ?? 0;
}
