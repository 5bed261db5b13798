import { afterAll, beforeAll, expect, it } from "vitest";
import { createPool, type Pool, poolStatistics } from "#database/pool.ts";
import {
  CENSUS,
  isSigningKeyOlder,
  oldestUnsigned,
  readCensus,
} from "#database/repositories/webhooks/census.ts";
import { createLogger } from "#observability/logger.ts";
import { isNearlyEmpty, readTableHealth } from "#database/repositories/partitions.ts";
import { eventually } from "#test/support/eventually.ts";
import { readDocument, shellLines } from "#test/support/documents.ts";
import { useWorld } from "#test/support/world.ts";

const DAY_MS = 86_400_000;
const world = useWorld();
const pools: Pool[] = [];

function pool(role: "signet_worker" | "signet_audit" | "signet_operator"): Pool {
  const opened = createPool({
    url: world.current.config.databaseUrl,
    role,
    max: 2,
    log: createLogger({ level: "silent" }),
  });
  pools.push(opened);
  return opened;
}

let worker: Pool;
beforeAll(() => {
  worker = pool("signet_worker");
});
afterAll(async () => {
  await Promise.all(pools.map(async (opened) => await opened.end()));
});

it("counts all tenants' open items by state, and nothing that has ended", async () => {
  const { current: here } = world;
  const { sql } = here;
  const nowMs = Date.now();
  for (const states of [
    ["QUEUED", "QUEUED", "RETRYING", "DEAD_LETTERED", "DELIVERED"],
    ["RETRYING", "DEAD_LETTERED", "DEAD_LETTERED", "EXPIRED", "CANCELLED"],
  ]) {
    const tenantId = await here.createTenant();
    await here.createEndpoint(tenantId, "http://127.0.0.1:9/");
    for (const [index, state] of states.entries()) {
      const { deliveries } = await here.publish(tenantId);
      await sql.query(
        `UPDATE deliveries SET state = $2, carrier = $3, claimed_at = now(), next_attempt_at = now(), expires_at = $4
          WHERE id = $1`,
        [
          deliveries[0]?.id,
          state,
          index === 1 ? "bat_x" : null,
          new Date(nowMs + (index === 1 ? DAY_MS / 2 : 3 * DAY_MS)),
        ],
      );
    }
    // An expired dead letter is not counted, whatever its row says.
    const { deliveries } = await here.publish(tenantId);
    await sql.query("UPDATE deliveries SET state = 'DEAD_LETTERED', expires_at = $2 WHERE id = $1", [
      deliveries[0]?.id,
      new Date(nowMs - 1_000),
    ]);
  }
  const tenantId = await here.createTenant();
  const endpoint = await here.createEndpoint(tenantId, "http://127.0.0.1:9/");
  await sql.query(
    "UPDATE endpoints SET state = 'PENDING', verification_state = 'WANTED', verification_requested_at = $2 WHERE id = $1",
    [endpoint.id, new Date(nowMs - 90_000)],
  );
  const rotating = await here.createEndpoint(tenantId, "http://127.0.0.1:9/");
  await sql.query("UPDATE endpoints SET secret_rotation_days = 1 WHERE id = $1", [rotating.id]);
  await sql.query("UPDATE endpoint_secrets SET created_at = $2 WHERE endpoint_id = $1", [
    rotating.id,
    new Date(nowMs - 3 * DAY_MS),
  ]);

  expect(await readCensus(worker, nowMs)).toEqual({
    waiting: 1,
    started: 1,
    retrying: 2,
    dead_letters: 3,
    expiring: 1,
    verifications: 1,
    oldest_verification_seconds: 90,
    replays_running: 0,
    replays_paused: 0,
    overdue_endpoint_secrets: 1,
  });
});

it("reads indexes of deliveries, never a table", async () => {
  const { rows } = await worker.query<{ "QUERY PLAN": string }>(`EXPLAIN ${CENSUS}`, [
    new Date(),
    new Date(),
    new Date(),
  ]);
  const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
  expect(plan).not.toMatch(/Seq Scan on deliveries/);
  expect(plan).toMatch(/Index Only Scan using deliveries_\w*expires_at/);
});

it("reports how long the log has waited for a checkpoint, and the signing key's age", async () => {
  const audit = pool("signet_audit");
  const { rows } = await world.current.sql.query<{ at: Date }>("SELECT min(at) AS at FROM clog");
  expect(await oldestUnsigned(audit)).toEqual(rows[0]?.at ?? undefined);
  const operator = pool("signet_operator");
  expect(await isSigningKeyOlder(operator, new Date(0))).toBe(false);
});

it("reports how long a lock on a table with days holds others up, and nothing afterwards", async () => {
  const { sql } = world.current;
  const [holder, waiter] = [await sql.connect(), await sql.connect()];
  await holder.query("BEGIN; LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE");
  const waiting = waiter.query("SELECT FROM deliveries LIMIT 1");
  await eventually(async () => (await readTableHealth(worker)).lock_wait_seconds > 0, "a wait for the lock");
  await holder.query("ROLLBACK");
  await waiting;
  await eventually(
    async () => (await readTableHealth(worker)).lock_wait_seconds === 0,
    "the end of all waits",
  );
  holder.release();
  waiter.release();
});

it("sees the pages that a backlog leaves, and the runbook's command returns them", async () => {
  const { current: here } = world;
  const tenantId = await here.createTenant();
  const endpoint = await here.createEndpoint(tenantId, "http://127.0.0.1:9/");
  const client = await here.sql.connect();
  await client.query("BEGIN; SET LOCAL session_replication_role = replica");
  await client.query(
    `INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, cycle_started_at, created_at)
      SELECT (now() AT TIME ZONE 'UTC')::date, 'dlv_backlog' || n, $1, 'evt_x', 'a.b', $2, 'QUEUED', now(), now()
      FROM generate_series(1, 100000) AS n`,
    [tenantId, endpoint.id],
  );
  await client.query("COMMIT; BEGIN; SET LOCAL session_replication_role = replica");
  await client.query("DELETE FROM deliveries WHERE tenant_id = $1", [tenantId]);
  await client.query("COMMIT");
  client.release();
  const { waiting_pages: waitingPages } = await readTableHealth(worker);
  expect(waitingPages).toBeGreaterThan(1_000);

  const [command = ""] = (await shellLines("docs/runbook.md"))
    .map(({ text }) => text)
    .filter((text) => text.includes("REINDEX"));
  const [, select = ""] = /-qAtc "(SELECT [^"]+)"/.exec(command) ?? [];
  const { rows } = await here.sql.query<{ format: string }>(select.replace("> 8000000", "> 800000"));
  expect(rows.length).toBeGreaterThan(0);
  const sections = (await readDocument("docs/runbook.md")).split(/^## /m);
  const queries = sections
    .filter((section) => /^Signet(?:TablesLocked|WaitingIndexEmpty)\n/.test(section))
    .map((section) => /```sql\n([\s\S]*?)```/.exec(section)?.[1] ?? "");
  expect(queries).toHaveLength(2);
  for (const query of queries) {
    expect((await here.sql.query(query)).rowCount).toBeGreaterThanOrEqual(0);
  }
  for (const { format } of rows) {
    await here.sql.query(format);
  }
  expect((await readTableHealth(worker)).waiting_pages).toBeLessThan(waitingPages / 2);
});

it.each([
  [20_001, 12, true],
  [20_001, 20_001, false],
  [150_000, 100_000, false],
  [20_000, 12, false],
])("%i pages for %i deliveries are nearly empty: %s", (waitingPages, waiting, empty) => {
  expect(isNearlyEmpty({ waiting_pages: waitingPages, lock_wait_seconds: 0 }, waiting)).toBe(empty);
});

it("sums a role's pools while they are open", async () => {
  const [one, two] = [pool("signet_audit"), pool("signet_audit")];
  const before = poolStatistics().find(({ role }) => role === "signet_audit")?.size ?? 0;
  const held = await one.connect();
  const during = poolStatistics().find(({ role }) => role === "signet_audit");
  expect((during?.total ?? 0) - (during?.idle ?? 0)).toBeGreaterThanOrEqual(1);
  held.release();
  await two.end();
  pools.splice(pools.indexOf(two), 1);
  expect(poolStatistics().find(({ role }) => role === "signet_audit")?.size).toBe(before - 2);
});
