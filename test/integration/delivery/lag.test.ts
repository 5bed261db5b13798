/** The lag that operators see in the worker's gauges and in `signet doctor`. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { readLag } from "#database/repositories/webhooks/reconciliation.ts";
import { createLogger } from "#observability/logger.ts";
import { runDoctor } from "#processes/doctor.ts";
import { useWorld } from "#test/support/world.ts";

// No worker: published events wait.
const made = useWorld();
let pool: Pool;
let tenants: readonly [string, string];

beforeAll(async () => {
  const { config } = made.current;
  const log = createLogger({ level: "silent" });
  pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 2, log });
  tenants = [await made.current.createTenant(), await made.current.createTenant()];
  for (const tenant of tenants) {
    await made.current.createEndpoint(tenant, "http://127.0.0.1:1");
  }
});

afterAll(async () => {
  await pool.end();
});

beforeEach(async () => {
  await made.current.sql.query("DELETE FROM deliveries");
});

/** Inserts a delivery that was accepted the given number of seconds ago. */
async function accepted(secondsAgo: number, tenant = tenants[0]): Promise<string> {
  const { deliveries } = await made.current.publish(tenant);
  const id = deliveries[0]?.id ?? "";
  await made.current.sql.query(
    "UPDATE deliveries SET created_at = now() - make_interval(secs => $2) WHERE id = $1",
    [id, secondsAgo],
  );
  return id;
}

async function change(id: string, assignments: string): Promise<void> {
  await made.current.sql.query(`UPDATE deliveries SET ${assignments} WHERE id = $1`, [id]);
}

async function lag(): Promise<{ unattempted: number; overdue: number }> {
  const { oldestUnattemptedSeconds, mostOverdueSeconds } = await readLag(pool, new Date());
  return {
    unattempted: Math.round(oldestUnattemptedSeconds / 10) * 10,
    overdue: Math.round(mostOverdueSeconds / 10) * 10,
  };
}

describe("the oldest delivery without an attempt", () => {
  test("is 0 s old when there is none", async () => {
    await change(await accepted(300), "state = 'DELIVERED'");
    expect(await lag()).toEqual({ unattempted: 0, overdue: 0 });
  });

  test("is found among all tenants", async () => {
    await accepted(10, tenants[0]);
    await accepted(200, tenants[1]);
    await accepted(30, tenants[0]);
    expect(await lag()).toEqual({ unattempted: 200, overdue: 0 });
  });

  test("includes claimed deliveries without an attempt", async () => {
    await accepted(20);
    await change(await accepted(120), "carrier = id, claimed_at = now() - interval '1 second'");
    expect(await lag()).toEqual({ unattempted: 120, overdue: 0 });
  });

  test("excludes deliveries that wait for their endpoint's rate limit", async () => {
    await accepted(20);
    const id = await accepted(120, tenants[1]);
    const limit = async (rateLimit: number | null): Promise<unknown> =>
      await made.current.sql.query("UPDATE endpoints SET rate_limit = $2 WHERE tenant_id = $1", [
        tenants[1],
        rateLimit,
      ]);
    await change(id, "carrier = id, claimed_at = now() - interval '1 second'");
    expect(await lag()).toEqual({ unattempted: 120, overdue: 0 });
    await limit(1);
    expect(await lag()).toEqual({ unattempted: 20, overdue: 0 });
    await limit(null);
  });

  test("excludes replays of old deliveries, which have had attempts", async () => {
    await accepted(20);
    await change(await accepted(500_000), "cycle = 2, epoch = 2");
    await change(await accepted(500_000), "cycle = 2, epoch = 2, carrier = id, claimed_at = now()");
    expect(await lag()).toEqual({ unattempted: 20, overdue: 0 });
  });
});

test("the most overdue retry is found, with or without a workflow", async () => {
  const due = (seconds: number): string =>
    `state = 'RETRYING', attempt_count = 1, next_attempt_at = now() - interval '${seconds} seconds'`;
  await change(await accepted(900), due(40));
  await change(await accepted(900), `${due(70)}, carrier = id`);
  await change(await accepted(900), due(-600));
  expect(await lag()).toEqual({ unattempted: 0, overdue: 70 });
});

test("doctor finds no fault in what is overdue after a restore, for an hour or until a worker has run", async () => {
  const { config, sql } = made.current;
  await accepted(900);
  const id = await accepted(900);
  await change(
    id,
    "state = 'RETRYING', attempt_count = 1, next_attempt_at = now() - interval '300 seconds', carrier = id",
  );
  const overdue = async (): Promise<readonly { readonly ok: boolean; readonly detail: string }[]> =>
    (await runDoctor({ config, replay: 0 })).filter(
      ({ check }) => check === "outbox" || check === "carriers",
    );
  const faults = [{ ok: false }, { ok: false }];
  expect(await overdue()).toMatchObject(faults);
  const epoch = "UPDATE rev_clock SET epoch = gen_random_uuid()";
  await sql.query(epoch);
  const detail = expect.stringMatching(/overdue|waited/) as unknown;
  expect(await overdue()).toMatchObject([
    { ok: true, detail },
    { ok: true, detail: expect.stringContaining("the database was restored at 2") as unknown },
  ]);
  await sql.query("UPDATE rev_clock SET epoch_at = epoch_at - interval '61 minutes'");
  expect(await overdue()).toMatchObject(faults);
  await sql.query(epoch);
  await sql.query("INSERT INTO workers (id, seen_at) VALUES ('wrk_test', clock_timestamp())");
  expect(await overdue()).toMatchObject(faults);
});
