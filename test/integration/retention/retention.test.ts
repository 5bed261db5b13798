import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { purgeExpired } from "#webhooks/retention/retention.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const DAY_MS = 86_400_000;
const NOW = Date.now();
const database = useTestDatabase();
const log = createLogger({ level: "silent" });
let sql: Client;
let pool: Pool;

beforeAll(async () => {
  sql = new Client({ connectionString: database.adminUrl });
  await sql.connect();
  pool = createPool({ url: database.url, role: "signet_worker", max: 2, log });
});

afterAll(async () => {
  await Promise.all([sql.end(), pool.end()]);
});

test("a deleted endpoint leaves a tombstone for 30 days, and indefinitely if its tenant is held", async () => {
  const made = { tenant: newId("tenant", NOW, randomBytes), held: newId("tenant", NOW, randomBytes) };
  await sql.query(
    `INSERT INTO tenants (id, name, region, data_key, created_at, held_at)
      VALUES ($1, 'a', 'eu', '', now(), NULL), ($2, 'b', 'eu', '', now(), now())`,
    [made.tenant, made.held],
  );
  async function tombstone(tenant: string, daysAgo: number, state = "DELETED"): Promise<string> {
    const id = newId("endpoint", NOW, randomBytes);
    await sql.query(
      `INSERT INTO endpoints (id, tenant_id, url, event_types, state, verification_state, verification_requested_at,
        created_at, updated_at, deleted_at) VALUES ($1, $2, '', '{}', $3, 'VERIFIED', now(), now(), now(), $4)`,
      [id, tenant, state, new Date(NOW - daysAgo * DAY_MS)],
    );
    await sql.query(
      `INSERT INTO endpoint_secrets (endpoint_id, version, tenant_id, secret, fingerprint, state, created_at)
        VALUES ($1, 1, $2, '', '', 'RETIRED', now())`,
      [id, tenant],
    );
    await sql.query("INSERT INTO endpoint_health VALUES ($1, 1, now())", [id]);
    await sql.query("INSERT INTO endpoint_failures VALUES ($1, now(), now())", [id]);
    return id;
  }
  const old = await tombstone(made.tenant, 31);
  const kept = [
    await tombstone(made.tenant, 29),
    await tombstone(made.tenant, 31, "ACTIVE"),
    await tombstone(made.held, 31),
  ];
  expect(
    await purgeExpired({ timers: machineTimers, pool, clock: { now: () => NOW }, log, retentionDays: 90 }),
  ).toMatchObject({
    endpoints: 1,
  });
  for (const table of ["endpoints", "endpoint_secrets", "endpoint_health", "endpoint_failures"]) {
    const column = table === "endpoints" ? "id" : "endpoint_id";
    const { rows } = await sql.query<{ id: string }>(
      `SELECT ${column} AS id FROM ${table} WHERE ${column} = ANY($1) ORDER BY 1`,
      [[old, ...kept]],
    );
    expect(rows.map(({ id }) => id)).toEqual(kept.toSorted((one, other) => (one < other ? -1 : 1)));
  }
  await expect(pool.query("DELETE FROM endpoints WHERE state = 'ACTIVE'")).resolves.toMatchObject({
    rowCount: 0,
  });
});

async function partitions(): Promise<string[]> {
  const { rows } = await sql.query<{ relname: string }>(
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(events|deliveries|attempts)_' ORDER BY 1",
  );
  return rows.map((row) => row.relname);
}

/** Inserts an event with a delivery in the given state and an attempt, created the given number of days ago. */
async function insert(daysAgo: number, state: string, expiresInDays?: number): Promise<string> {
  const at = NOW - daysAgo * DAY_MS;
  const [event, id] = [newId("event", at, randomBytes), newId("delivery", at, randomBytes)];
  const day = new Date(at).toISOString().slice(0, 10);
  await sql.query(
    `INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
      VALUES ($1, $2, 'ten_x', 'a.b', '{}', $3, 1, $3)`,
    [day, event, new Date(at)],
  );
  await sql.query(
    `INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at, expires_at)
      VALUES ($1, $2, 'ten_x', $3, 'a.b', 'ep_x', $4, $5, $6)`,
    [
      day,
      id,
      event,
      state,
      new Date(at),
      expiresInDays === undefined ? null : new Date(NOW + expiresInDays * DAY_MS),
    ],
  );
  await sql.query(
    `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms)
      VALUES ($1, $2, 1, 1, $3, 'ten_x', $4, 5)`,
    [day, id, newId("attempt", at, randomBytes), new Date(at)],
  );
  return id;
}

async function left(): Promise<Record<string, { deliveries: number; attempts: number; events: number }>> {
  const { rows } = await sql.query<{ id: string; attempts: string; events: string }>(
    `SELECT d.id, (SELECT count(*) FROM attempts a WHERE a.delivery_id = d.id) AS attempts,
      (SELECT count(*) FROM events e WHERE e.id = d.event_id) AS events FROM deliveries d`,
  );
  return Object.fromEntries(
    rows.map((row) => [
      row.id,
      { deliveries: 1, attempts: Number(row.attempts), events: Number(row.events) },
    ]),
  );
}

test("retention drops whole days, but keeps open deliveries with their event and attempts until they end", async () => {
  for (const daysAgo of [40, 35, 29]) {
    const first = new Date(NOW - daysAgo * DAY_MS).toISOString().slice(0, 10);
    await sql.query("SELECT ensure_day_partitions($1, 1)", [first]);
  }
  const kept = {
    young: await insert(29, "DELIVERED"),
    retrying: await insert(35, "RETRYING"),
    queued: await insert(40, "QUEUED"),
    dead: await insert(40, "DEAD_LETTERED", 3),
  };
  const gone = {
    delivered: await insert(40, "DELIVERED"),
    cancelled: await insert(35, "CANCELLED"),
    deadAndOver: await insert(40, "DEAD_LETTERED", -1),
  };
  const before = await partitions();
  const options = { timers: machineTimers, pool, clock: { now: () => NOW }, log, retentionDays: 30 };
  expect(await purgeExpired(options)).toMatchObject({ days: 2 });

  const rows = await left();
  for (const id of Object.values(kept)) {
    expect(rows[id]).toEqual({ deliveries: 1, attempts: 1, events: 1 });
  }
  for (const id of Object.values(gone)) {
    expect(rows[id]).toBeUndefined();
  }
  expect(before.length - (await partitions()).length).toBe(6);
  expect(await purgeExpired(options)).toMatchObject({ days: 0, rows: 0 });

  // Once it has ended, it is deleted from the default partitions, too, with its event.
  await sql.query("UPDATE deliveries SET state = 'DELIVERED' WHERE id = ANY ($1)", [
    [kept.retrying, kept.queued],
  ]);
  expect(await purgeExpired(options)).toMatchObject({ days: 0, rows: 2 });
  expect(Object.keys(await left()).sort()).toEqual([kept.young, kept.dead].sort());
  const { rows: events } = await sql.query("SELECT id FROM events");
  expect(events).toHaveLength(2);
});

test("revocations of single tokens are deleted a day after the tokens' end, all others never", async () => {
  const add = async (seq: number, kind: string, expired: string | null): Promise<void> => {
    await sql.query(
      `INSERT INTO revocations (seq, id, kind, target, actor, at, expires_at, log_index, leaf_hash)
        VALUES ($1, $2, $3, 'x', 'system:test', now(), now() - $4::interval, 0, '')`,
      [seq, newId("revocation", 0, randomBytes), kind, expired],
    );
  };
  await add(1, "jti", "25 hours");
  await add(2, "jti", "23 hours");
  await add(3, "credential", "25 hours");
  await add(4, "kid", null);
  const purged = await purgeExpired({
    timers: machineTimers,
    pool,
    clock: { now: () => NOW },
    log,
    retentionDays: 30,
  });
  expect(purged).toMatchObject({ revocations: 1 });
  const { rows } = await sql.query<{ seq: number }>("SELECT seq::int FROM revocations ORDER BY seq");
  expect(rows.map(({ seq }) => seq)).toEqual([2, 3, 4]);
});

test("a replay job is deleted with its items once its end is as old as expired deliveries", async () => {
  const tenant = newId("tenant", NOW, randomBytes);
  await sql.query(
    "INSERT INTO tenants (id, name, region, data_key, created_at) VALUES ($1, 'replays', 'eu', '', now())",
    [tenant],
  );
  async function job(daysAgo: number | null): Promise<string> {
    const id = newId("replay", NOW, randomBytes);
    await sql.query(
      `INSERT INTO replay_jobs (id, tenant_id, kind, state, rate_per_second, total, created_at, touched_at, finished_at)
        VALUES ($1, $2, 'dead_letters', $3, 1, 1, now(), now(), $4)`,
      [
        id,
        tenant,
        daysAgo === null ? "PAUSED" : "COMPLETED",
        daysAgo === null ? null : new Date(NOW - daysAgo * DAY_MS),
      ],
    );
    await sql.query(
      "INSERT INTO replay_items (job_id, position, tenant_id, day) VALUES ($1, 1, $2, '2025-01-01')",
      [id, tenant],
    );
    return id;
  }
  await job(91);
  await job(92);
  const kept = [await job(89), await job(null)].toSorted();
  await purgeExpired({ timers: machineTimers, pool, clock: { now: () => NOW }, log, retentionDays: 90 });
  for (const [table, column] of [
    ["replay_jobs", "id"],
    ["replay_items", "job_id"],
  ] as const) {
    const { rows } = await sql.query<{ id: string }>(
      `SELECT ${column} AS id FROM ${table} WHERE tenant_id = $1 ORDER BY 1`,
      [tenant],
    );
    expect(rows.map(({ id }) => id)).toEqual(kept);
  }
});
