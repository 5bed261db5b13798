/** Counts by days: they are folded whatever day they are of, and go with their day as a whole (decision 41). */
import { randomBytes } from "node:crypto";
import { Client, type QueryResult } from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createPool, type Pool, type Queryable } from "#database/pool.ts";
import { dropCounts, ensurePartitions } from "#database/repositories/partitions.ts";
import { foldCounts } from "#database/repositories/webhooks/delivery-counts.ts";
import { DAY_MS, hourStart, newId, utcDay } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { foldDeliveryChanges } from "#webhooks/engine/delivery-counts.ts";
import { purgeExpired } from "#webhooks/retention/retention.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** Later than the first partition, which has what was stored when the table was divided. */
const NOW = Date.now() + 400 * DAY_MS;
const RETENTION_DAYS = 30;
const TENANT = newId("tenant", NOW, randomBytes);
const clock = { now: () => NOW };
const log = createLogger({ level: "silent" });
const database = useTestDatabase();
let sql: Client;
let worker: Pool;

beforeAll(async () => {
  sql = new Client({ connectionString: database.adminUrl });
  await sql.connect();
  worker = createPool({ url: database.url, role: "signet_worker", max: 2, log });
});
afterAll(async () => {
  await Promise.all([sql.end(), worker.end()]);
});
beforeEach(async () => {
  await sql.query("TRUNCATE delivery_counts, delivery_changes");
});

/** Appends changes of deliveries that were accepted some days ago. */
async function append(daysAgo: readonly number[]): Promise<void> {
  for (const days of daysAgo) {
    await sql.query(
      `INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, hour, accepted, attempt_hour, attempts)
        VALUES ($1, '', 'a.b', $2, 1, $2, 1)`,
      [TENANT, new Date(hourStart(NOW - days * DAY_MS))],
    );
  }
}

async function fold(): Promise<void> {
  const keyring = testKeyring(Buffer.alloc(32));
  await foldDeliveryChanges({ pool: worker, keyring, clock, randomBytes, deadLetterMs: DAY_MS });
}

async function count(daysAgo: readonly number[]): Promise<void> {
  await append(daysAgo);
  await fold();
}

/** Returns how many days ago the counted deliveries were accepted, and how many are counted. */
async function counted(): Promise<Record<string, number>> {
  const { rows } = await sql.query<{ hour: Date; accepted: number }>(
    "SELECT hour, sum(accepted)::int AS accepted FROM delivery_counts GROUP BY hour ORDER BY hour DESC",
  );
  const now = hourStart(NOW);
  return Object.fromEntries(rows.map(({ hour, accepted }) => [(now - hour.getTime()) / DAY_MS, accepted]));
}

const nameOf = (daysAgo: number): string =>
  `delivery_counts_${utcDay(NOW - daysAgo * DAY_MS).replaceAll("-", "")}`;

test("changes are folded whatever day they are of, also without a partition, and beside another worker", async () => {
  await ensurePartitions(worker, NOW, { timers: machineTimers });
  await append([0, 0, 1, 31, 200, 20_000, -90]);
  await Promise.all([fold(), fold()]);
  await count([0, 200]);
  expect(await counted()).toEqual({ "-90": 1, 0: 3, 1: 1, 31: 1, 200: 2, 20000: 1 });
  expect((await sql.query("SELECT FROM delivery_changes")).rowCount).toBe(0);
});

test("accepted deliveries are added up in PostgreSQL: thousands of endpoints do not keep the worker busy", async () => {
  await sql.query(
    `INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, hour, accepted)
      SELECT $1, 'ep_' || n % 2000, 'a.b', $2, 1 FROM generate_series(1, 4000) n`,
    [TENANT, new Date(hourStart(NOW))],
  );
  await append([0]);
  let answered = 0;
  const db: Queryable = {
    query: async (...statement: unknown[]) => {
      const result = await (worker.query as (...of: unknown[]) => Promise<QueryResult>)(...statement);
      answered += result.rows.length;
      return result as never;
    },
  };
  expect(await foldCounts(db, 10_000)).toEqual({ lines: 4_001, changes: [] });
  expect(answered).toBe(1);
  expect(await counted()).toEqual({ 0: 4_001 });
});

test("a day of counts is dropped as a whole when all its hours are over: no row is deleted", async () => {
  await count([0, 29, 30, 31, 32, 200]);
  await sql.query(`CREATE FUNCTION deletes_no_counts() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'rows are deleted'; END $$;
    CREATE TRIGGER deletes_no_counts BEFORE DELETE ON delivery_counts FOR EACH ROW EXECUTE FUNCTION deletes_no_counts()`);
  try {
    await purgeExpired({ timers: machineTimers, pool: worker, clock, log, retentionDays: RETENTION_DAYS });
    expect(await counted()).toEqual({ 0: 1, 29: 1, 30: 1 });
    // What is counted of a day that is gone goes with the next run.
    await count([200]);
    expect(
      await dropCounts(worker, new Date(NOW - RETENTION_DAYS * DAY_MS), { timers: machineTimers }),
    ).toEqual([nameOf(200)]);
  } finally {
    await sql.query("DROP FUNCTION deletes_no_counts CASCADE");
  }
});

test("a drop of counts gives way to who reads them, and a new day waits for nobody", async () => {
  await count([0, 300]);
  const reader = new Client({ connectionString: database.adminUrl });
  await reader.connect();
  let pauses = 0;
  try {
    await reader.query("BEGIN; SELECT FROM delivery_counts");
    await ensurePartitions(worker, NOW + 30 * DAY_MS, { timers: machineTimers });
    const sleep = async (): Promise<void> => {
      pauses += 1;
      await reader.query("COMMIT");
    };
    expect(await dropCounts(worker, new Date(NOW - 299 * DAY_MS), { timers: { sleep } })).toContain(
      nameOf(300),
    );
  } finally {
    await reader.end();
  }
  expect(pauses).toBe(1);
});

/** As workers of before migration 0078 do: by places that rows of several partitions have. */
const BY_PLACE = `DELETE FROM delivery_counts WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM delivery_counts WHERE hour < $1 LIMIT 5000))`;

test("older workers delete no counts, of whatever hour", async () => {
  await count([0, 1, 40]);
  expect((await worker.query(BY_PLACE, [new Date(NOW - 30 * DAY_MS)])).rowCount).toBe(0);
  expect(await counted()).toEqual({ 0: 1, 1: 1, 40: 1 });
});
