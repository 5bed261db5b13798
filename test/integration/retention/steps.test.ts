/** The steps of retention do not depend on each other. */
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { createLogger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { purgeExpired, type RetentionOptions, type RetentionStep } from "#webhooks/retention/retention.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

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

const options = (): RetentionOptions => ({
  timers: machineTimers,
  pool,
  clock: { now: () => NOW },
  log,
  retentionDays: 30,
});

test("a step that fails is reported, and the next ones run", async () => {
  await sql.query("INSERT INTO pinged_hosts VALUES ('old.example', now() - interval '2 days', 1)");
  await sql.query("REVOKE DELETE ON replay_jobs FROM signet_worker");
  try {
    await expect(purgeExpired(options())).rejects.toThrow(/replay_jobs/);
  } finally {
    await sql.query("GRANT DELETE ON replay_jobs TO signet_worker");
  }
  expect((await sql.query("SELECT FROM pinged_hosts")).rowCount).toBe(0);
  const failures = await metrics.retentionFailures.get();
  expect(failures.values).toContainEqual(
    expect.objectContaining({ labels: { step: "replay_jobs" }, value: 1 }),
  );
  expect(await purgeExpired(options())).toMatchObject({ more: false });
});

test("a step that reached its limit goes on at once, until the call's time is over, and says what is left", async () => {
  const ran: string[] = [];
  const step = (name: string, runs: number): RetentionStep => ({
    name,
    run: async () => {
      ran.push(name);
      return await Promise.resolve({
        removed: 1,
        more: ran.filter((other) => other === name).length < runs,
      });
    },
  });
  const steps = [step("days", 3), step("rows", 1), step("endpoints", 2)];
  expect(
    await purgeExpired({ ...options(), timers: { ...machineTimers, monotonic: () => 0 } }, steps),
  ).toMatchObject({
    days: 3,
    rows: 1,
    more: false,
  });
  expect(ran).toEqual(["days", "rows", "endpoints", "days", "endpoints", "days"]);

  let elapsed = 0;
  const slow = { ...step("days", 9), run: async () => await Promise.resolve({ removed: 1, more: true }) };
  const monotonic = (): number => (elapsed += 300_000);
  expect(await purgeExpired({ ...options(), timers: { ...machineTimers, monotonic } }, [slow])).toMatchObject(
    { days: 2, more: true },
  );
  const behind = await metrics.retentionBehind.get();
  expect(behind.values).toContainEqual(expect.objectContaining({ labels: { step: "days" }, value: 1 }));
});
