import { DAY_MS, HOUR_MS, utcDay } from "../../domain/ids.ts";
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

/** Tables whose rows live for a day. Each is closed after a while, and dropped a day later (migration 0071). */
const ROTATING = ["idempotency_keys", "idempotent_answers"] as const;
/** Age at which a table is closed. Every key is looked for in each table, so there are few. */
const ROTATED_MS = DAY_MS;
/** Size of the rows at which a table is closed earlier, in bytes: some 10 million keys. */
const ROTATED_BYTES = 2 * 1024 ** 3;
/** What a closed table is kept for beyond the life of its keys: clocks of the processes that took them differ. */
const SPARE_MS = HOUR_MS;

/** Closes the tables of keys that are old or large enough. Returns their number. */
export async function rotateTables(
  db: Queryable,
  nowMs: number,
  maxBytes: number = ROTATED_BYTES,
): Promise<number> {
  let rotated = 0;
  for (const table of ROTATING) {
    const { rows } = await db.query<{ rotated: boolean }>({
      text: "SELECT rotate_table($1, $2, $3::float8 * interval '1 millisecond', $4) AS rotated",
      values: [table, new Date(nowMs), ROTATED_MS, maxBytes],
    });
    rotated += rows[0]?.rotated === true ? 1 : 0;
  }
  return rotated;
}

/** Drops the tables whose keys have all ended by now. Returns their names. */
export async function dropClosedTables(db: Queryable, nowMs: number): Promise<string[]> {
  const before = new Date(nowMs - DAY_MS - SPARE_MS);
  const dropped: string[] = [];
  for (let index = 0; index < ROTATING.length;) {
    const { rows } = await db.query<{ name: string | null }>("SELECT drop_closed_table($1, $2) AS name", [
      ROTATING[index],
      before,
    ]);
    const name = rows[0]?.name ?? null;
    if (name === null) {
      index += 1;
    } else {
      dropped.push(name);
    }
  }
  return dropped;
}
