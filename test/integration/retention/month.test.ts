/**
 * A month of upkeep with a clock of its own, beside traffic: nothing is lost, the disk reaches a plateau, and nobody waits.
 * `SIGNET_TEST_MONTH_ROWS` chooses the finished deliveries of a day. The figures are printed as JSON.
 */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { ensurePartitions, rotateTables } from "#database/repositories/partitions.ts";
import { EVENTS_ROUTE, insertEvents } from "#database/repositories/webhooks/events.ts";
import { DAY_MS, HOUR_MS, newId, utcDay } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { foldDeliveryChanges } from "#webhooks/engine/delivery-counts.ts";
import { foldDeadLetters } from "#webhooks/engine/dead-letter-notices.ts";
import { purgeExpired } from "#webhooks/retention/retention.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const ROWS = Number(process.env["SIGNET_TEST_MONTH_ROWS"] ?? 1_000);
const DAYS = 31;
/** The least that the service accepts. */
const RETENTION_DAYS = 8;
/** They died late, so they are open when their day ends. More than the default partitions take over. */
const LETTERS = Math.max(600, ROWS / 50);
const LETTERS_KEPT_DAYS = 11;
/** They expire shortly before the eleventh day's upkeep. */
const LETTERS_KEPT_MS = LETTERS_KEPT_DAYS * DAY_MS - HOUR_MS;
/** From this day on, every kind of row ends. */
const STEADY = 14;
/** Size of the last ten days, times that of the first ones that are steady. */
const PLATEAU = 1.15;
/** Longest wait of a reader or publisher, and longest time for which a day's end locks a table, on a busy machine. */
const [WAIT_MAX_MS, LOCK_MAX_MS] = [1_000, 500];
/** No table of keys is closed for a day after the migration, and earlier counts lie in one partition. */
const START = Math.floor(Date.now() / DAY_MS) * DAY_MS + 20 * DAY_MS + DAY_MS / 2;
const TENANT = newId("tenant", START, randomBytes);
const ENDPOINT = newId("endpoint", START, randomBytes);

allowMinutes(Math.max(8, ROWS / 2_000));

const log = createLogger({ level: "silent" });
const database = useTestDatabase();
let sql: Client;
let worker: Pool;
let ingest: Pool;

beforeAll(async () => {
  sql = new Client({ connectionString: database.adminUrl });
  await sql.connect();
  worker = createPool({ url: database.url, role: "signet_worker", max: 4, log });
  ingest = createPool({ url: database.url, role: "signet_ingest", max: 2, log });
});
afterAll(async () => {
  await Promise.all([sql.end(), worker.end(), ingest.end()]);
});

type State = "QUEUED" | "RETRYING" | "DEAD_LETTERED" | "DELIVERED";

/** What became of a published delivery. */
interface Published {
  readonly id: string;
  readonly atMs: number;
  state: State;
  attempts: number;
}

const ledger: Published[] = [];
let nowMs = START;

/** Inserts a day's finished deliveries, with events, attempts and keys, and its open dead letters. */
async function fillDay(): Promise<void> {
  const values = [ROWS, utcDay(nowMs), TENANT, new Date(nowMs), ENDPOINT];
  await sql.query("BEGIN");
  await sql.query("SET LOCAL signet.moving = 'on'");
  await sql.query(
    `WITH n AS (SELECT lpad(i::text, 20, '0') AS n FROM generate_series(1, $1::int) i), published AS (
        INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
        SELECT $2::date, 'evt_' || n, $3, 'a.b', '{}', $4::timestamptz, 1, $4 FROM n
      ), attempted AS (
        INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at)
        SELECT $2, 'dlv_' || n, 1, 1, 'att_' || n, $3, $4 FROM n
      ), keyed AS (
        INSERT INTO idempotency_keys SELECT $3, '${EVENTS_ROUTE}', $2::text || n, '\\x00', 'evt_' || n, $4 FROM n
      ), counted AS (
        INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, hour, accepted, delivered)
        VALUES ($3, $5, 'a.b', date_trunc('hour', $4, 'UTC'), $1, $1)
      )
      INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
      SELECT $2, 'dlv_' || n, $3, 'evt_' || n, 'a.b', $5, 'DELIVERED', $4 FROM n`,
    values,
  );
  await sql.query("COMMIT");
  const expiresInMs = nowMs + LETTERS_KEPT_MS - Date.now();
  await seedDeadLetters(sql, {
    tenantId: TENANT,
    endpointId: ENDPOINT,
    count: LETTERS,
    atMs: nowMs,
    expiresInMs,
  });
}

async function publish(key: string): Promise<void> {
  const [id, delivery] = [newId("event", nowMs, randomBytes), newId("delivery", nowMs, randomBytes)];
  const now = new Date(nowMs);
  const { inserted } = await insertEvents(
    ingest,
    [
      {
        id,
        tenantId: TENANT,
        type: "a.b",
        content: Buffer.from("x"),
        sourceId: null,
        occurredAt: now,
        keys: [{ kind: "request", tenantId: TENANT, route: EVENTS_ROUTE, key, bodyHash: Buffer.alloc(32) }],
        deliveries: [{ id: delivery, endpointId: ENDPOINT, state: "QUEUED" }],
      },
    ],
    { now, keysAfter: new Date(nowMs - DAY_MS), signedKeysAfter: now, expiresAt: now },
  );
  // A repeated key is no event.
  if (inserted.has(id)) {
    ledger.push({ id: delivery, atMs: nowMs, state: "QUEUED", attempts: 0 });
  }
}

/** Records an attempt and its outcome, as a worker does. */
async function record(delivery: Published, state: State): Promise<void> {
  delivery.attempts += 1;
  delivery.state = state;
  const expiresAt = state === "DEAD_LETTERED" ? new Date(nowMs + LETTERS_KEPT_MS) : null;
  const { rowCount } = await worker.query(
    `WITH attempted AS (
        INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at) VALUES ($1, $2, 1, $3, $4, $5, $6)
      ) UPDATE deliveries SET state = $7, expires_at = $8, attempt_count = $3 WHERE day = $1 AND id = $2`,
    [
      utcDay(delivery.atMs),
      delivery.id,
      delivery.attempts,
      newId("attempt", nowMs, randomBytes),
      TENANT,
      new Date(nowMs),
      state,
      expiresAt,
    ],
  );
  expect(rowCount, `${delivery.id} is lost`).toBe(1);
}

const FIRST: readonly State[] = ["DELIVERED", "DEAD_LETTERED", "RETRYING", "DELIVERED"];

/** What is due of earlier days: retries of yesterday, and replays of some dead letters while their day is dropped. */
function dueWork(): (() => Promise<void>)[] {
  return ledger.flatMap((delivery, index) => {
    const age = (nowMs - delivery.atMs) / DAY_MS;
    const { state } = delivery;
    if ((state === "RETRYING" && age >= 1) || (state === "QUEUED" && age > RETENTION_DAYS)) {
      return [async () => await record(delivery, "DELIVERED")];
    }
    return state === "DEAD_LETTERED" && age === RETENTION_DAYS + 1 && index % 3 > 0
      ? [async () => await record(delivery, index % 3 === 1 ? "QUEUED" : "DELIVERED")]
      : [];
  });
}

/** Repeats work until stopped and until `least` times. Returns the longest time that one took, in milliseconds. */
async function longestOf(
  until: () => boolean,
  least: number,
  work: (n: number) => Promise<unknown>,
): Promise<number> {
  let longest = 0;
  for (let n = 0; n < least || !until(); n += 1) {
    const since = performance.now();
    await work(n);
    longest = Math.max(longest, performance.now() - since);
  }
  return longest;
}

/** All that a worker's upkeep and its schedule do with old rows. */
async function upkeep(): Promise<void> {
  const clock = { now: () => nowMs };
  const keyring = testKeyring(Buffer.alloc(32));
  await ensurePartitions(worker, nowMs, { timers: machineTimers });
  await rotateTables(worker, nowMs, { timers: machineTimers });
  await foldDeadLetters({ pool: worker, clock });
  await foldDeliveryChanges({ pool: worker, keyring, clock, randomBytes, deadLetterMs: DAY_MS });
  const options = { timers: machineTimers, pool: worker, clock, log, retentionDays: RETENTION_DAYS };
  expect(await purgeExpired(options)).toMatchObject({ more: false });
}

interface Day {
  readonly waitMs: number;
  readonly lockMs: number;
  readonly upkeepMs: number;
  readonly mib: number;
  readonly tables: number;
}

async function liveDay(): Promise<Day> {
  await ensurePartitions(worker, nowMs, { timers: machineTimers });
  await fillDay();
  // Autovacuum has a day for it, not seconds.
  await sql.query(
    "VACUUM (ANALYZE) events, deliveries, attempts, delivery_changes, dead_letter_changes, day_drop_lines",
  );
  const due = dueWork();
  const today = utcDay(nowMs);
  let over = false;
  const waits = [
    longestOf(
      () => over,
      1,
      async () => await sql.query(`SELECT FROM deliveries WHERE day = '${today}' LIMIT 1`),
    ),
    longestOf(
      () => over,
      Math.max(12, due.length),
      async (n) => {
        await publish(`${today} ${n - (n % 10 === 9 ? 1 : 0)}`);
        const last = ledger.at(-1);
        if (last?.state === "QUEUED" && last.atMs === nowMs) {
          await record(last, FIRST[n % FIRST.length] ?? "DELIVERED");
        }
        await due[n]?.();
      },
    ),
  ];
  const since = performance.now();
  await upkeep().finally(() => {
    over = true;
  });
  const upkeepMs = performance.now() - since;
  const waitMs = Math.max(...(await Promise.all(waits)));
  const { values } = await metrics.retentionLockWait.get();
  const { rows } = await sql.query<{ mib: number; tables: number }>(
    `SELECT (sum(pg_total_relation_size(oid)) / 1048576)::float8 AS mib, count(*)::int AS tables
      FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'`,
  );
  const { mib = Number.NaN, tables = Number.NaN } = rows[0] ?? {};
  return { waitMs, lockMs: 1_000 * (values[0]?.value ?? 0), upkeepMs, mib, tables };
}

/** Compares what was published to what is stored at the end. */
async function findLost(): Promise<{ lost: string[]; left: string[] }> {
  const { rows } = await sql.query<{ id: string; state: State; attempts: number; events: number }>(
    `SELECT id, state, (SELECT count(*)::int FROM attempts a WHERE a.day = d.day AND a.delivery_id = d.id) AS attempts,
        (SELECT count(*)::int FROM events e WHERE e.day = d.day AND e.id = d.event_id) AS events
      FROM deliveries d WHERE id = ANY ($1)`,
    [ledger.map(({ id }) => id)],
  );
  const stored = new Map(rows.map((row) => [row.id, row]));
  const before = utcDay(nowMs - RETENTION_DAYS * DAY_MS);
  const isKept = ({ state, atMs }: Published): boolean =>
    utcDay(atMs) >= before ||
    state === "QUEUED" ||
    state === "RETRYING" ||
    (state === "DEAD_LETTERED" && atMs + LETTERS_KEPT_MS > nowMs);
  const asPublished = ({ id, state, attempts }: Published): boolean => {
    const row = stored.get(id);
    return row?.state === state && row.attempts === attempts && row.events === 1;
  };
  return {
    lost: ledger.filter((each) => isKept(each) && !asPublished(each)).map(({ id }) => id),
    left: ledger.filter((each) => !isKept(each) && stored.has(each.id)).map(({ id }) => id),
  };
}

async function one<T>(text: string, values: unknown[]): Promise<T> {
  const { rows } = await sql.query<{ one: T }>(text, values);
  return rows[0]?.one as T;
}

test("a month of days goes by beside traffic: nothing is lost or left, the disk reaches a plateau, and nobody waits", async () => {
  const days: Day[] = [];
  for (let day = 0; day < DAYS; day += 1) {
    nowMs = START + day * DAY_MS;
    days.push(await liveDay());
  }
  const most = (of: keyof Day, from = 0, to = DAYS): number =>
    Math.max(...days.slice(from, to).map((each) => each[of]));
  const figures = {
    rows_each_day: ROWS,
    letters_each_day: LETTERS,
    published: ledger.length,
    longest_wait_ms: Math.round(most("waitMs")),
    longest_lock_ms: Math.round(most("lockMs")),
    longest_upkeep_ms: Math.round(most("upkeepMs")),
    mib: days.map(({ mib }) => Math.round(mib)),
    tables: days.map(({ tables }) => tables),
  };
  process.stderr.write(`${JSON.stringify(figures)}\n`);

  expect(await findLost()).toEqual({ lost: [], left: [] });
  const open =
    "SELECT count(*)::int AS one FROM deliveries WHERE state = 'DEAD_LETTERED' AND NOT id = ANY ($1)";
  expect(await one(open, [ledger.map(({ id }) => id)])).toBe(LETTERS * LETTERS_KEPT_DAYS);
  const counted =
    "SELECT sum(accepted)::int AS one FROM delivery_counts WHERE hour >= date_trunc('day', $1::timestamptz, 'UTC')";
  const young = ledger.filter(({ atMs }) => atMs >= nowMs - RETENTION_DAYS * DAY_MS);
  await upkeep();
  expect(await one(counted, [new Date(nowMs - RETENTION_DAYS * DAY_MS)])).toBe(
    (RETENTION_DAYS + 1) * (ROWS + LETTERS) + young.length,
  );
  const oldest = "SELECT min(hour) AS one FROM delivery_counts";
  expect((await one<Date>(oldest, [])).getTime()).toBeGreaterThanOrEqual(
    nowMs - (RETENTION_DAYS + 1) * DAY_MS,
  );
  const keys = "SELECT count(*)::int AS one FROM idempotency_keys WHERE created_at < $1 AND tenant_id = $2";
  expect(await one(keys, [new Date(nowMs - 3 * DAY_MS), TENANT])).toBe(0);

  expect(most("mib", DAYS - 10)).toBeLessThan(PLATEAU * most("mib", STEADY, STEADY + 5));
  expect(most("tables", DAYS - 10)).toBeLessThanOrEqual(most("tables", STEADY, STEADY + 5));
  expect(most("lockMs")).toBeLessThan(LOCK_MAX_MS);
  expect(most("waitMs")).toBeLessThan(WAIT_MAX_MS);
});
