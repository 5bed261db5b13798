/**
 * The end of a day: what is still open stays, whatever happens to it meanwhile, and nobody waits (decision 41).
 * `SIGNET_TEST_LETTERS` chooses how much the large day has. Its figures are printed as JSON.
 */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createPool, type Pool, type Queryable } from "#database/pool.ts";
import {
  beginDayDrop,
  copyOpenRows,
  ensurePartitions,
  excludeDroppedDay,
  listOpenRows,
  partitionDays,
  swapDay,
} from "#database/repositories/partitions.ts";
import { DAY_MS, newId, utcDay } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { dropDay } from "#webhooks/retention/drop-day.ts";
import { purgeExpired } from "#webhooks/retention/retention.ts";
import { eventually } from "#test/support/eventually.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const NOW = Date.now();
/** Open dead letters of the large day, and its deliveries that have ended. */
const LETTERS = Number(process.env["SIGNET_TEST_LETTERS"] ?? 20_000);
const ENDED = 5 * LETTERS;
/** Time to fill several large days on a busy machine. */
const SEEDING_MS = 600_000;
/** Rows that a scan would read, and the most that go to the default partitions. */
const [MANY, FEW] = [3_000, 500];
/** How long a reader or a publisher may wait: 80 ms for locks, and what the swap itself takes on a busy machine. */
const WAIT_MAX_MS = 1_000;
const TENANT = newId("tenant", NOW, randomBytes);
const ENDPOINT = newId("endpoint", NOW, randomBytes);

const database = useTestDatabase();
const log = createLogger({ level: "silent" });
const now = new Date(NOW);
let sql: Client;
let pool: Pool;
let daysAgo = 40;
let day: string;
let atMs: number;

async function connected(): Promise<Client> {
  const client = new Client({ connectionString: database.adminUrl });
  await client.connect();
  return client;
}

beforeAll(async () => {
  sql = await connected();
  pool = createPool({ url: database.url, role: "signet_worker", max: 4, log });
});
afterAll(async () => {
  await Promise.all([sql.end(), pool.end()]);
});

/** Goes on to an earlier day, with partitions. */
async function newDay(): Promise<void> {
  daysAgo += 1;
  atMs = NOW - daysAgo * DAY_MS;
  day = utcDay(atMs);
  await sql.query("SELECT ensure_day_partitions($1, 1)", [day]);
}

beforeEach(newDay);

async function letters(count: number): Promise<string[]> {
  const ids = await seedDeadLetters(sql, { tenantId: TENANT, endpointId: ENDPOINT, count, atMs });
  await sql.query(
    `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms)
      SELECT day, id, 1, 17, 'att_' || substr(id, 5), tenant_id, created_at, 5 FROM deliveries WHERE day = $1 AND state = 'DEAD_LETTERED'
      ON CONFLICT DO NOTHING`,
    [day],
  );
  return ids;
}

/** Inserts deliveries that have ended, with their events. */
async function ended(count: number): Promise<void> {
  await sql.query(
    `WITH n AS (SELECT lpad(i::text, 20, '0') AS n FROM generate_series(1, $1::int) i), published AS (
        INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
        SELECT $2::date, 'evt_' || n, $3, 'a.b', '{}', $4, 1, $4 FROM n
      )
      INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
      SELECT $2::date, 'dlv_' || n, $3, 'evt_' || n, 'a.b', $5, 'DELIVERED', $4 FROM n`,
    [count, day, TENANT, new Date(atMs), ENDPOINT],
  );
}

interface Stored {
  readonly id: string;
}

/** Returns the day's open deliveries, with all that belongs to them, as readers find them. */
async function open(): Promise<unknown[]> {
  const { rows } = await sql.query(
    `SELECT to_jsonb(d) AS delivery, (SELECT to_jsonb(e) FROM events e WHERE e.day = d.day AND e.id = d.event_id) AS event,
      (SELECT jsonb_agg(a ORDER BY a.cycle, a.attempt) FROM attempts a WHERE a.day = d.day AND a.delivery_id = d.id) AS attempts
      FROM deliveries d WHERE d.day = $1 AND d.state IN ('QUEUED', 'RETRYING', 'DEAD_LETTERED') ORDER BY d.id`,
    [day],
  );
  return rows;
}

async function countOf(table: string): Promise<number> {
  const { rows } = await sql.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`);
  return rows[0]?.n ?? 0;
}

/** Tables of the day, attached or not. */
async function tablesOfDay(): Promise<string[]> {
  const { rows } = await sql.query<{ relname: string }>(
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ $1 ORDER BY 1",
    [`^(events|deliveries|attempts)_${day.replaceAll("-", "")}`],
  );
  return rows.map(({ relname }) => relname);
}

/** Repeats a statement until stopped. Returns the longest time that one took, in milliseconds. */
async function longestOf(
  until: () => boolean,
  statement: (client: Client, n: number) => Promise<unknown>,
): Promise<number> {
  const client = await connected();
  let longest = 0;
  try {
    for (let n = 0; !until(); n += 1) {
      const since = performance.now();
      await statement(client, n);
      longest = Math.max(longest, performance.now() - since);
    }
  } finally {
    await client.end();
  }
  return longest;
}

const TODAY = utcDay(NOW);

/** Fills another day, and drops it beside a reader and a publisher. Returns what was open in it. */
async function dropBesideTraffic(): Promise<unknown[]> {
  await newDay();
  await letters(LETTERS);
  await ended(ENDED);
  await sql.query("ANALYZE deliveries, events, attempts");
  const before = await open();
  const lines = [await countOf("dead_letter_changes"), await countOf("delivery_changes")];
  let done = false;
  const waits = [
    longestOf(
      () => done,
      async (client) => await client.query(`SELECT FROM deliveries WHERE day = '${TODAY}' LIMIT 1`),
    ),
    longestOf(
      () => done,
      async (client) =>
        await client.query(
          `WITH e AS (
              INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
              VALUES ($1, $2, $3, 'a.b', '{}', now(), 1, now())
            )
            INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
            VALUES ($1, $4, $3, $2, 'a.b', $5, 'QUEUED', now())`,
          [TODAY, newId("event", NOW, randomBytes), TENANT, newId("delivery", NOW, randomBytes), ENDPOINT],
        ),
    ),
  ];
  const since = performance.now();
  try {
    expect(await dropDay({ timers: machineTimers, pool, now }, day)).toBe(true);
  } finally {
    done = true;
  }
  const ms = Math.round(performance.now() - since);
  const longest = await Promise.all(waits);
  const { values } = await metrics.retentionLockWait.get();
  const [reader_wait_ms, publisher_wait_ms] = longest.map(Math.round);
  const lock_ms = Math.round(1_000 * (values[0]?.value ?? Number.NaN));
  const figures = { letters: LETTERS, ended: ENDED, ms, reader_wait_ms, publisher_wait_ms, lock_ms };
  process.stderr.write(`${JSON.stringify(figures)}\n`);
  expect(Math.max(...longest)).toBeLessThan(WAIT_MAX_MS);
  expect([await countOf("dead_letter_changes"), await countOf("delivery_changes")]).toEqual(lines);
  return before;
}

test(
  "a day with many open dead letters is dropped beside a reader and a publisher, which hardly wait",
  async () => {
    const before = await withoutPause(dropBesideTraffic);
    expect(await open()).toEqual(before);
    expect(before).toHaveLength(LETTERS);
    expect(await countOf(`deliveries WHERE day = '${day}'`)).toBe(LETTERS);
    expect(await countOf(`events WHERE day = '${day}'`)).toBe(LETTERS);
    expect(await tablesOfDay()).toEqual(
      ["attempts", "deliveries", "events"].map((noun) => `${noun}_${day.replaceAll("-", "")}_kept`),
    );

    // They leave like others: as soon as few are left, these move to the default partitions.
    expect(await dropDay({ timers: machineTimers, pool, now }, day)).toBe(false);
    await sql.query("UPDATE deliveries SET state = 'DELIVERED' WHERE day = $1 AND id > $2", [
      day,
      (before[2] as { delivery: Stored }).delivery.id,
    ]);
    const options = { timers: machineTimers, pool, clock: { now: () => NOW }, log, retentionDays: 30 };
    expect((await purgeExpired(options)).rows).toBe(LETTERS - 3);
    await purgeExpired(options);
    expect(await open()).toEqual(before.slice(0, 3));
    expect(await tablesOfDay()).toEqual([]);
  },
  SEEDING_MS,
);

/** Takes a day to the moment before its swap. */
async function prepare(db: Queryable = pool): Promise<void> {
  await beginDayDrop(db, day);
  await excludeDroppedDay(db, day);
  while (await listOpenRows(db, day, 1_000)) {
    // The next ones.
  }
  while ((await copyOpenRows(db, day, 1_000)) > 0) {
    // The next ones.
  }
}

test("the transaction for which others wait scans neither the day, nor its copies, nor the default partitions", async () => {
  const dropped = day;
  // A day without partitions.
  atMs -= 365 * DAY_MS;
  day = utcDay(atMs);
  await letters(MANY);
  [day, atMs] = [dropped, Date.parse(dropped)];
  await letters(MANY);
  await ended(MANY);
  await prepare();
  await sql.query("BEGIN");
  await sql.query("SELECT swap_day($1, 100, $2)", [day, FEW]);
  const { rows } = await sql.query<{ read: number }>(
    `SELECT sum(seq_tup_read)::int AS read FROM pg_stat_xact_user_tables
      WHERE relname ~ '^(events|deliveries|attempts)_'`,
  );
  await sql.query("COMMIT");
  // It looks whether the copies are few. A scan of any of the tables would read more.
  expect(rows[0]?.read).toBeLessThan(MANY);
});

/** What workers and tenants do to deliveries of an old day. */
const CHANGES: Readonly<Record<string, string>> = {
  claimed: "UPDATE deliveries SET carrier = 'bat_x', claimed_at = now() WHERE day = $1 AND id = $2",
  replayed:
    "UPDATE deliveries SET state = 'QUEUED', cycle = cycle + 1, epoch = epoch + 1, carrier = NULL WHERE day = $1 AND id = $2",
  retried: `WITH a AS (
      INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at)
      VALUES ($1, $2, 2, 1, 'att_x', 'ten_x', now())
    ) UPDATE deliveries SET state = 'RETRYING', attempt_count = 1 WHERE day = $1 AND id = $2`,
  recorded: "UPDATE attempts SET status = 503, duration_ms = 7 WHERE day = $1 AND delivery_id = $2",
  delivered: "UPDATE deliveries SET state = 'DELIVERED' WHERE day = $1 AND id = $2",
  erased: `UPDATE events SET data = NULL, content_erased_at = now()
    WHERE day = $1 AND id = (SELECT event_id FROM deliveries WHERE day = $1 AND id = $2)`,
  resent: "UPDATE deliveries SET state = 'QUEUED', epoch = epoch + 1 WHERE day = $1 AND id = $2",
};

test.each([1_000, 10])(
  "what changes between two steps of a drop is not lost, with %i open deliveries",
  async (count) => {
    const ids = await letters(count);
    await ended(30);
    let next = 0;
    async function changeAll(): Promise<void> {
      for (const [name, statement] of Object.entries(CHANGES)) {
        const id = name === "resent" ? `dlv_${String(next + 1).padStart(20, "0")}` : ids[next % ids.length];
        next += 1;
        const { rowCount } = await sql.query(statement, [day, id]);
        expect(rowCount, name).toBeGreaterThan(0);
      }
    }
    await beginDayDrop(pool, day);
    await changeAll();
    await excludeDroppedDay(pool, day);
    await listOpenRows(pool, day, 5);
    await changeAll();
    while (await listOpenRows(pool, day, 300)) {
      await copyOpenRows(pool, day, 10);
    }
    while ((await copyOpenRows(pool, day, 300)) > 0) {
      // The next ones.
    }
    await changeAll();
    const before = await open();
    expect(await swapDay(pool, day)).toBeGreaterThan(0);
    expect(await open()).toEqual(before);
    await changeAll().catch(() => undefined);
    await dropDay({ timers: machineTimers, pool, now }, day);
  },
);

test("workers that claim and record while a day is dropped find every row, and lose no change", async () => {
  const ids = await letters(3_000);
  const known = new Map(ids.map((id) => [id, 1]));
  const dropping = new AbortController();
  async function work(worker: number): Promise<void> {
    for (let n = worker; !dropping.signal.aborted; n += 2) {
      const id = ids[(n * 7919) % ids.length] ?? "";
      const epoch = (known.get(id) ?? 0) + 1;
      // Not found would be a lost row; an error, a lost record.
      const { rowCount } = await pool.query(
        `WITH a AS (
            INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at) VALUES ($1, $2, 2, $3, $4, 'ten_x', now())
          ) UPDATE deliveries SET state = 'RETRYING', epoch = $3, carrier = $2 WHERE day = $1 AND id = $2 AND epoch = $3 - 1`,
        [day, id, epoch, newId("attempt", NOW, randomBytes)],
      );
      expect(rowCount).toBe(1);
      known.set(id, epoch);
    }
  }
  const workers = [work(0), work(1)];
  await eventually(() => [...known.values()].some((epoch) => epoch > 1), "the workers to work");
  try {
    expect(await dropDay({ timers: machineTimers, pool, now }, day)).toBe(true);
  } finally {
    dropping.abort();
  }
  await Promise.all(workers);
  const { rows } = await sql.query<{ id: string; epoch: number; attempts: number }>(
    `SELECT id, epoch, (SELECT count(*)::int FROM attempts a WHERE a.day = d.day AND a.delivery_id = d.id) AS attempts
      FROM deliveries d WHERE day = $1 ORDER BY id`,
    [day],
  );
  expect(rows).toEqual(ids.toSorted().map((id) => ({ id, epoch: known.get(id), attempts: known.get(id) })));
});

test("a drop that crashes at any point goes on from there", async () => {
  await letters(1_100);
  await ended(100);
  const before = await open();
  let dropped: boolean | undefined;
  for (let calls = 0; dropped === undefined; calls += 1) {
    expect(calls).toBeLessThan(100);
    let left = calls;
    const crashing = new Proxy(pool, {
      get: (target, name) =>
        name === "query"
          ? async (text: string, values?: unknown[]) => {
              const answer = await target.query(text, values);
              left -= 1;
              if (left < 0) {
                throw new Error("crashed");
              }
              return answer;
            }
          : (Reflect.get(target, name) as unknown),
    });
    dropped = await dropDay({ timers: machineTimers, pool: crashing, now }, day).catch(() => undefined);
    expect(await open()).toEqual(before);
  }
  await purgeExpired({ timers: machineTimers, pool, clock: { now: () => NOW }, log, retentionDays: 30 });
  expect(await open()).toEqual(before);
  expect((await tablesOfDay()).every((name) => name.endsWith("_kept"))).toBe(true);
  expect(await countOf("day_drops")).toBe(0);
  expect(await countOf("day_drop_lines")).toBe(0);
});

describe("a drop gives way", () => {
  test("to a transaction that locks the tables in another order, instead of a deadlock", async () => {
    await letters(10);
    await prepare();
    const other = await connected();
    try {
      await other.query("BEGIN; LOCK TABLE deliveries IN ROW EXCLUSIVE MODE");
      const swap = swapDay(pool, day).catch((error: unknown) => error);
      await other.query("LOCK TABLE events IN ROW EXCLUSIVE MODE");
      expect(await swap).toMatchObject({ code: "55P03" });
      await other.query("COMMIT");
    } finally {
      await other.end();
    }
    expect(await swapDay(pool, day)).toBeGreaterThan(0);
  });

  test("to others who read the day, and is repeated until they are done", async () => {
    await letters(10);
    const other = await connected();
    const pauses: number[] = [];
    try {
      await other.query(`BEGIN; SELECT FROM deliveries WHERE day = '${day}'`);
      await dropDay(
        {
          pool,
          now,
          random: () => 0.5,
          timers: {
            sleep: async (ms) => {
              pauses.push(ms);
              await other.query("COMMIT");
            },
          },
        },
        day,
      );
    } finally {
      await other.end();
    }
    expect(pauses).toEqual([150]);
    expect(await partitionDays(pool)).not.toContain(day);
  });
});

test("a new day is made beside open publishes, and gives way to who reads the default partition", async () => {
  const publisher = await connected();
  const future = NOW + 10 * DAY_MS;
  try {
    await publisher.query("BEGIN");
    await publisher.query(
      `INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
        VALUES ($1, $2, $3, 'a.b', '{}', now(), 1, now())`,
      [TODAY, newId("event", NOW, randomBytes), TENANT],
    );
    const sleep = async (): Promise<void> => await Promise.reject(new Error("it had to wait"));
    expect(await ensurePartitions(pool, future, { timers: { sleep } })).toBe(12);
    await publisher.query("SELECT FROM events_default; SELECT FROM deliveries_default");
    let pauses = 0;
    const made = ensurePartitions(pool, future + 5 * DAY_MS, {
      timers: {
        sleep: async () => {
          pauses += 1;
          await publisher.query("COMMIT");
        },
      },
    });
    expect(await made).toBe(12);
    expect(pauses).toBe(1);
  } finally {
    await publisher.end();
  }
});
