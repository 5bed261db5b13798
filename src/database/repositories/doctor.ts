import type { Queryable } from "../pool.ts";

/** Returns the database's time in Unix milliseconds, with a fraction. */
export async function databaseClockMs(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ now: number }>(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now",
  );
  return rows[0]?.now ?? 0;
}
