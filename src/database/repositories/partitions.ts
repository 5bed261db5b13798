import type { Clock, Timers } from "#domain/clock.ts";
import { DAY_MS, HOUR_MS, utcDay } from "#domain/ids.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { giveWay, type Patience } from "../errors.ts";
import type { Queryable } from "../pool.ts";

const PARTITIONS_MS = 3_600_000;
/** In ten minutes, 1,000 events a second with two keys each make a million keys. */
const ROTATIONS_MS = 600_000;
/** Yesterday, today and tomorrow. Statements are planned over every partition, so empty ones cost at each start. */
const DAYS = 3;

/**
 * Creates the missing day partitions from yesterday to tomorrow. Returns their number. If no worker runs for a day, rows
 * of a day without a partition go to the default partition and stay there. Counts wait until their day has one.
 */
export async function ensurePartitions(db: Queryable, nowMs: number, patience: Patience): Promise<number> {
  let made = 0;
  for (let day = -1; day < DAYS - 1; day += 1) {
    // A transaction for each day, so that locks are held briefly.
    made += await giveWay(async () => {
      const { rows } = await db.query<{ made: number }>({
        text: "SELECT ensure_day_partitions($1, 1) AS made",
        values: [utcDay(nowMs + day * DAY_MS)],
      });
      return rows[0]?.made ?? 0;
    }, patience);
    made += await ensureCountDays(db, [utcDay(nowMs + day * DAY_MS)]);
  }
  return made;
}

/** Makes the missing partitions of days of counts. Returns their number. Nobody waits for it. */
async function ensureCountDays(db: Queryable, days: readonly string[]): Promise<number> {
  const { rows } = await db.query<{ made: number }>({
    text: "SELECT ensure_count_days($1) AS made",
    values: [days],
  });
  return rows[0]?.made ?? 0;
}

/** Makes partitions for the counts of all changes that are not folded yet, whatever days they are of. */
export async function ensureDaysOfChanges(db: Queryable): Promise<void> {
  await db.query(`SELECT ensure_count_days(ARRAY(
    SELECT (hour AT TIME ZONE 'UTC')::date FROM delivery_changes WHERE hour IS NOT NULL
    UNION SELECT (attempt_hour AT TIME ZONE 'UTC')::date FROM delivery_changes WHERE attempt_hour IS NOT NULL))`);
}

/** Drops tables by a statement that drops the next one until there is none. Returns their names, oldest first. */
async function dropEach(
  db: Queryable,
  statement: string,
  values: readonly unknown[],
  patience: Patience,
): Promise<string[]> {
  const dropped: string[] = [];
  for (;;) {
    const { rows } = await giveWay(
      async () => await db.query<{ name: string | null }>(statement, [...values]),
      patience,
    );
    const name = rows[0]?.name ?? null;
    if (name === null) {
      return dropped;
    }
    dropped.push(name);
  }
}

/** Drops the partitions of counts whose hours are all before an instant. Returns their names, oldest first. */
export async function dropCounts(db: Queryable, before: Date, patience: Patience): Promise<string[]> {
  return await dropEach(db, "SELECT drop_counts($1) AS name", [before], patience);
}

/** Returns the days that have partitions, `YYYY-MM-DD`, oldest first. */
export async function partitionDays(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ day: string }>("SELECT partition_days() AS day");
  return rows.map((row) => row.day);
}

/** Rows of a table that default partitions take over from a day. A day with more keeps partitions of its own. */
const FEW = 500;
/** Rows that are copied while everything waits. */
const LAST_LINES = 100;

/**
 * Begins to empty a day, or goes on. Returns false if the day has no partitions, or only those of many open rows.
 *
 * @throws DatabaseError if a lock is not free within 80 ms
 */
export async function beginDayDrop(db: Queryable, day: string): Promise<boolean> {
  const { rows } = await db.query<{ begun: boolean }>("SELECT begin_day_drop($1, $2) AS begun", [day, FEW]);
  return rows[0]?.begun === true;
}

/**
 * Promises that the default partitions have no rows of a day that is being emptied.
 *
 * @throws DatabaseError if a lock is not free within 80 ms
 */
export async function excludeDroppedDay(db: Queryable, day: string): Promise<void> {
  await db.query("SELECT exclude_dropped_day($1)", [day]);
}

/** Lists open rows of a day that is being emptied. Returns false after the last. */
export async function listOpenRows(db: Queryable, day: string, most: number): Promise<boolean> {
  const { rows } = await db.query<{ more: boolean }>("SELECT list_open_rows($1, $2) AS more", [day, most]);
  return rows[0]?.more === true;
}

/** Copies listed rows of a day as they are now. Returns the number of lines. */
export async function copyOpenRows(db: Queryable, day: string, most: number): Promise<number> {
  const { rows } = await db.query<{ lines: number }>("SELECT copy_open_rows($1, $2) AS lines", [day, most]);
  return rows[0]?.lines ?? 0;
}

/**
 * Puts the copies in the place of a day. Returns for how many milliseconds others waited. Undefined if too many rows have
 * changed since they were copied.
 *
 * @throws DatabaseError if the locks are not free within 80 ms in all
 */
export async function swapDay(db: Queryable, day: string): Promise<number | undefined> {
  const { rows } = await db.query<{ ms: number | null }>("SELECT swap_day($1, $2, $3) AS ms", [
    day,
    LAST_LINES,
    FEW,
  ]);
  return rows[0]?.ms ?? undefined;
}

/**
 * Returns for how many milliseconds the oldest day should have been dropped, 0 if none should. Days of which only open
 * rows were kept do not count.
 */
export async function oldestDayOverdueMs(
  db: Queryable,
  nowMs: number,
  retentionDays: number,
): Promise<number> {
  const { rows } = await db.query<{ day: string | null }>("SELECT oldest_whole_day() AS day");
  const day = rows[0]?.day;
  if (typeof day !== "string") {
    return 0;
  }
  return Math.max(0, nowMs - Date.parse(day) - (retentionDays + 1) * DAY_MS);
}

export interface TableHealth {
  /** Pages of the indexes of deliveries that no worker has claimed, of all days. */
  readonly waiting_pages: number;
  /** How long the longest present wait for a lock on events, deliveries or attempts has lasted. */
  readonly lock_wait_seconds: number;
}

/** Reads sizes and locks from the catalogue, without a lock on a table (role signet_worker). */
export async function readTableHealth(db: Queryable): Promise<TableHealth> {
  const { rows } = await db.query<TableHealth>({
    name: "table-health",
    text: `SELECT
      (SELECT coalesce(sum(pg_relation_size(inhrelid)), 0)::float8 / current_setting('block_size')::int FROM pg_inherits
        WHERE inhparent = 'deliveries_unclaimed'::regclass) AS waiting_pages,
      (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float8 FROM pg_locks
        WHERE NOT granted AND locktype = 'relation'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND pg_partition_root(relation) IN ('events'::regclass, 'deliveries'::regclass, 'attempts'::regclass)) AS lock_wait_seconds`,
  });
  return rows[0] ?? { waiting_pages: 0, lock_wait_seconds: 0 };
}

/** 160 MB. The backlog of a million deliveries takes 14,000. */
const MANY_PAGES = 20_000;
/** What the census counts at most. */
const MANY_WAITING = 100_000;

/** Whether the indexes of waiting deliveries are large and nearly empty. The alert SignetWaitingIndexEmpty has the same. */
export function isNearlyEmpty({ waiting_pages: waitingPages }: TableHealth, waiting: number): boolean {
  return waitingPages > MANY_PAGES && waiting < MANY_WAITING && waiting < waitingPages;
}

/** Drops a table of a day that was swapped. Returns false if there is none. */
export async function dropDetachedTable(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ gone: string | null }>("SELECT drop_detached_table() AS gone");
  return typeof rows[0]?.gone === "string";
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
  patience: Patience,
  maxBytes: number = ROTATED_BYTES,
): Promise<number> {
  let rotated = 0;
  for (const table of ROTATING) {
    const { rows } = await giveWay(
      async () =>
        await db.query<{ rotated: boolean }>({
          text: "SELECT rotate_table($1, $2, $3::float8 * interval '1 millisecond', $4) AS rotated",
          values: [table, new Date(nowMs), ROTATED_MS, maxBytes],
        }),
      patience,
    );
    rotated += rows[0]?.rotated === true ? 1 : 0;
  }
  return rotated;
}

/** Drops the tables whose keys have all ended by now. Returns their names. */
export async function dropClosedTables(db: Queryable, nowMs: number, patience: Patience): Promise<string[]> {
  const before = new Date(nowMs - DAY_MS - SPARE_MS);
  const dropped: string[] = [];
  for (const table of ROTATING) {
    dropped.push(
      ...(await dropEach(db, "SELECT drop_closed_table($1, $2) AS name", [table, before], patience)),
    );
  }
  return dropped;
}

/** Returns the jobs that make the partitions of days to come, and begin new tables of keys (role signet_worker). */
export function partitionJobs({
  pool,
  clock,
  timers,
}: {
  readonly pool: Queryable;
  readonly clock: Clock;
  readonly timers: Timers;
}): readonly UpkeepJob[] {
  return [
    {
      name: "partitions",
      everyMs: PARTITIONS_MS,
      run: async () => await ensurePartitions(pool, clock.now(), { timers }),
    },
    {
      name: "tables of keys",
      everyMs: ROTATIONS_MS,
      run: async () => await rotateTables(pool, clock.now(), { timers }),
    },
  ];
}
