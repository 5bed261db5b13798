/**
 * Keys that live for a day: they hold for their time over every change of tables, and go with a table as a whole.
 * `SIGNET_TEST_STORED` chooses how many keys end at once. The time is printed as JSON.
 */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Patience } from "#database/errors.ts";
import { createPool, type Pool, type Queryable, type ServiceRole } from "#database/pool.ts";
import { takeIdempotencyKey } from "#database/repositories/idempotency.ts";
import { claimAnswer, keepAnswer } from "#database/repositories/idempotent-answers.ts";
import { dropClosedTables, rotateTables } from "#database/repositories/partitions.ts";
import { deleteTenantRows } from "#database/repositories/tenant-erasure.ts";
import { EVENTS_ROUTE, insertEvents } from "#database/repositories/webhooks/events.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { DAY_MS, HOUR_MS, newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { seededRandom } from "#test/support/seeded-random.ts";
import { useTestDatabase } from "#test/support/services.ts";

const MINUTE_MS = 60_000;
/** No table is closed for a day after the migration. */
const START = Date.now() + 2 * DAY_MS;
const SEED = Number(process.env["SIGNET_TEST_SEED"] ?? 1);
const ROUNDS = 120;
const STORED = Number(process.env["SIGNET_TEST_STORED"] ?? 100_000);
// Inserts of millions take longer.
allowMinutes(1 + STORED / 500_000);

const log = createLogger({ level: "silent" });
const database = useTestDatabase();
let sql: Client;
let worker: Pool;
let ingest: Pool;
let api: Pool;
const [tenant, other] = ["a", "b"].map(() => newId("tenant", START, randomBytes)) as [string, string];

beforeAll(async () => {
  sql = new Client({ connectionString: database.adminUrl });
  await sql.connect();
  const pool = (role: ServiceRole, max: number): Pool => createPool({ url: database.url, role, max, log });
  [worker, ingest, api] = [pool("signet_worker", 2), pool("signet_ingest", 4), pool("signet_api", 4)];
  await sql.query(
    "INSERT INTO tenants (id, name, region, data_key, created_at) SELECT id, id, 'eu', '', now() FROM unnest($1::text[]) AS id",
    [[tenant, other]],
  );
});

afterAll(async () => {
  await Promise.all([sql.end(), worker.end(), ingest.end(), api.end()]);
});

/** Publishes an event under a key. Returns whether it is the first one. */
async function publish(key: string, nowMs: number, tenantId = tenant): Promise<boolean> {
  const id = newId("event", nowMs, randomBytes);
  const now = new Date(nowMs);
  const { inserted } = await insertEvents(
    ingest,
    [
      {
        id,
        tenantId,
        type: "a.b",
        content: Buffer.from("x"),
        sourceId: null,
        occurredAt: now,
        keys: [{ kind: "request", tenantId, route: EVENTS_ROUTE, key, bodyHash: Buffer.alloc(32) }],
        deliveries: [],
      },
    ],
    { now, keysAfter: new Date(nowMs - DAY_MS), signedKeysAfter: now, expiresAt: now },
  );
  return inserted.has(id);
}

/** Closes every table that has any rows. Returns their number. */
async function rotate(nowMs: number): Promise<number> {
  return await rotateTables(worker, nowMs, { timers: machineTimers }, 1);
}

async function drop(nowMs: number): Promise<string[]> {
  return await dropClosedTables(worker, nowMs, { timers: machineTimers });
}

async function closedTables(): Promise<string[]> {
  const { rows } = await sql.query<{ name: string }>(
    "SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relname ~ '_\\d{8}t\\d{6}$' ORDER BY 1",
  );
  return rows.map(({ name }) => name);
}

test("a key that is published by several at once, while tables change, gives one event in each 24 hours", async () => {
  const random = seededRandom(SEED);
  const acceptedAt = new Map<string, number>();
  let nowMs = START;
  let rotated = 0;
  let late = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    nowMs += Math.ceil(random() * 90) * MINUTE_MS;
    const key = `key-${Math.floor(random() * 12)}`;
    const at = acceptedAt.get(key);
    const free = at === undefined || at <= nowMs - DAY_MS;
    const early = random() < 0.3;
    if (early) {
      await drop(nowMs);
    }
    const [first, ...others] = await Promise.all([
      random() < 0.6 ? rotate(nowMs) : 0,
      ...Array.from({ length: 4 }, async () => await publish(key, nowMs)),
    ]);
    rotated += first;
    expect(others.filter(Boolean), `round ${round} of seed ${SEED}`).toHaveLength(free ? 1 : 0);
    if (free) {
      acceptedAt.set(key, nowMs);
    } else {
      late += nowMs - (at ?? 0) > 12 * HOUR_MS ? 1 : 0;
    }
  }
  expect(rotated).toBeGreaterThan(10);
  expect(late).toBeGreaterThan(5);
});

async function takeKey(key: string, nowMs: number): Promise<boolean> {
  const taken = await tenantTransaction(
    api,
    tenant,
    async (db) =>
      await takeIdempotencyKey(db, {
        place: { tenantId: tenant, route: "POST /v1/webhooks/endpoints", key },
        bodyHash: Buffer.alloc(32),
        resourceId: "ep_1",
        now: new Date(nowMs),
        forgetBefore: new Date(nowMs - DAY_MS),
      }),
  );
  return taken === undefined;
}

async function answer(key: number, nowMs: number): Promise<string | null> {
  const place = { ownerId: tenant, route: "POST /v1/x", keyDigest: Buffer.alloc(32, key) };
  return await tenantTransaction(api, tenant, async (db: Queryable) => {
    const takenAt = new Date(nowMs);
    const kept = await claimAnswer(db, {
      ...place,
      bodyHash: Buffer.alloc(32),
      now: takenAt,
      forgetBefore: new Date(nowMs - DAY_MS),
      abandonedBefore: new Date(nowMs - MINUTE_MS),
    });
    if (kept !== undefined) {
      return kept.answer;
    }
    await keepAnswer(db, place, { takenAt, answer: String(nowMs) });
    return null;
  });
}

test("keys of endpoints and kept answers hold for 24 hours over a change of tables, and no longer", async () => {
  const nowMs = START + 400 * DAY_MS;
  expect([await takeKey("e", nowMs), await answer(1, nowMs)]).toEqual([true, null]);
  expect(await rotate(nowMs + MINUTE_MS)).toBeGreaterThan(0);
  const last = nowMs + DAY_MS - 1;
  await drop(last);
  expect([await takeKey("e", last), await answer(1, last)]).toEqual([false, String(nowMs)]);
  expect([await takeKey("e", last + 1), await answer(1, last + 1)]).toEqual([true, null]);
  expect(await answer(1, last + 2)).toBe(String(last + 1));
});

test("ended keys go with their table: no row is deleted", async () => {
  const nowMs = START + 500 * DAY_MS;
  await sql.query(
    `INSERT INTO idempotency_keys SELECT $1, '${EVENTS_ROUTE}', 'old-' || n, '\\x00', 'evt_x', $2 FROM generate_series(1, $3::int) n`,
    [tenant, new Date(nowMs), STORED],
  );
  await sql.query(`CREATE FUNCTION deletes_nothing() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'rows are deleted'; END $$;
    CREATE TRIGGER deletes_nothing BEFORE DELETE ON idempotency_keys EXECUTE FUNCTION deletes_nothing()`);
  await expect(sql.query("DELETE FROM idempotency_keys WHERE key = 'old-1'")).rejects.toThrow(
    "rows are deleted",
  );
  expect(await rotate(nowMs + MINUTE_MS)).toBeGreaterThan(0);
  const closed = (await closedTables()).filter((name) => name.startsWith("idempotency_keys_"));
  expect(await drop(nowMs + DAY_MS + MINUTE_MS)).not.toContain(closed.at(-1));
  expect(await publish("old-2", nowMs + DAY_MS - 1)).toBe(false);
  const since = performance.now();
  expect(await drop(nowMs + DAY_MS + HOUR_MS + 2 * MINUTE_MS)).toContain(closed.at(-1));
  process.stderr.write(`${JSON.stringify({ keys: STORED, ms: Math.round(performance.now() - since) })}\n`);
  const { rows } = await sql.query<{ left: number }>(
    "SELECT count(*)::int AS left FROM idempotency_keys WHERE key LIKE 'old-%'",
  );
  expect(rows).toEqual([{ left: 0 }]);
});

test("who reads keys does not keep a table from being closed or dropped: both give way to them, and follow", async () => {
  const nowMs = START + 550 * DAY_MS;
  await publish("read", nowMs);
  const reader = new Client({ connectionString: database.adminUrl });
  await reader.connect();
  const pauses: string[] = [];
  const beside = async <T>(name: string, work: (patience: Patience) => Promise<T>): Promise<T> => {
    await reader.query("BEGIN; SELECT FROM idempotency_keys");
    const sleep = async (): Promise<void> => {
      pauses.push(name);
      await reader.query("COMMIT");
    };
    return await work({ timers: { sleep } });
  };
  try {
    const closed = async (patience: Patience): Promise<number> =>
      await rotateTables(worker, nowMs + MINUTE_MS, patience, 1);
    expect(await beside("close", closed)).toBeGreaterThan(0);
    const dropped = async (patience: Patience): Promise<string[]> =>
      await dropClosedTables(worker, nowMs + 3 * DAY_MS, patience);
    expect(await beside("drop", dropped)).not.toEqual([]);
  } finally {
    await reader.end();
  }
  expect(pauses).toEqual(["close", "drop"]);
});

/** Rights, policies and keys of a table. */
async function shape(table: string): Promise<unknown[]> {
  const { rows } = await sql.query(
    `SELECT relrowsecurity, relforcerowsecurity,
        (SELECT array_agg(acl::text ORDER BY acl::text) FROM unnest(relacl) AS acl) AS rights,
        (SELECT array_agg(attname || attacl::text ORDER BY attname) FROM pg_attribute WHERE attrelid = c.oid AND attacl IS NOT NULL) AS columns,
        (SELECT array_agg(concat(policyname, permissive, roles, cmd, qual, with_check) ORDER BY policyname)
          FROM pg_policies WHERE tablename = relname) AS policies,
        (SELECT array_agg(conname || pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = c.oid) AS constraints
      FROM pg_class c WHERE oid = $1::regclass`,
    [table],
  );
  return rows;
}

test.each(["idempotency_keys", "idempotent_answers"])(
  "a new table of %s has the rights and policies of the one before, which nobody reads by itself",
  async (table) => {
    const before = await shape(table);
    const nowMs = START + 600 * DAY_MS + (table === "idempotency_keys" ? 0 : DAY_MS);
    expect(await rotate(nowMs)).toBeGreaterThan(0);
    expect(await shape(table)).toEqual(before);
    const closed = (await closedTables()).findLast((name) => name.startsWith(`${table}_`)) ?? "";
    for (const pool of [worker, ingest, api]) {
      await expect(pool.query(`SELECT FROM ${closed}`)).rejects.toThrow("permission denied");
    }
    const { rows } = await sql.query(
      `SELECT DISTINCT grantee::regrole::text AS role FROM pg_class CROSS JOIN LATERAL aclexplode(relacl)
        WHERE relname = $1 AND grantee <> relowner`,
      [closed],
    );
    expect(rows).toEqual([{ role: "signet_backup" }]);
  },
);

test("erasing a tenant reaches its keys in closed tables, and no others", async () => {
  const nowMs = START + 700 * DAY_MS;
  await sql.query("DROP TRIGGER IF EXISTS deletes_nothing ON idempotency_keys");
  for (const minutes of [0, 1]) {
    await publish(`erased-${minutes}`, nowMs + minutes * MINUTE_MS);
    await publish(`kept-${minutes}`, nowMs + minutes * MINUTE_MS, other);
    expect(await rotate(nowMs + (minutes + 0.5) * MINUTE_MS)).toBeGreaterThan(0);
  }
  while ((await deleteTenantRows(worker, tenant, 1_000)) > 0);
  const { rows } = await sql.query<{ tenant_id: string }>(
    "SELECT tenant_id FROM idempotency_keys WHERE tenant_id IN ($1, $2)",
    [tenant, other],
  );
  expect(rows).toEqual([{ tenant_id: other }, { tenant_id: other }]);
});
