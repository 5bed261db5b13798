import type { Queryable } from "../pool.ts";

/** The database's time, Unix milliseconds. */
export async function databaseClockMs(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ now: Date }>("SELECT clock_timestamp() AS now");
  return rows[0]?.now.getTime() ?? 0;
}
