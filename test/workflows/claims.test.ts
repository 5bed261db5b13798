import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool, type Pool } from "../../src/database/pool.ts";
import { type AttemptOutcome, recordOutcomes } from "../../src/database/repositories/webhooks/attempts.ts";
import { claimFirst, reclaimUnstarted } from "../../src/database/repositories/webhooks/claims.ts";
import { newId } from "../../src/domain/ids.ts";
import { createLogger } from "../../src/observability/logger.ts";
import { useWorld } from "../support/world.ts";

// List sizes do not matter here: a claim is restarted as it was made, and the tests make the lists themselves.
// No worker runs: the tests claim like a worker that has died since.
const made = useWorld();
let pool: Pool;

beforeAll(() => {
  const { config } = made.current;
  const log = createLogger({ level: config.logLevel });
  pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 4, log });
});

afterAll(async () => {
  await pool.end();
});

/** Claims deliveries together 20 seconds ago, without starting their workflow. */
async function claimAndDie(count: number): Promise<{ carrier: string; ids: string[] }> {
  const world = made.current;
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, "http://127.0.0.1:1");
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { deliveries } = await world.publish(tenant);
    ids.push(deliveries[0]?.id ?? "");
  }
  const carrier = newId("batch", Date.now(), randomBytes);
  await world.sql.query(
    "UPDATE deliveries SET carrier = $1, claimed_at = now() - interval '20 seconds' WHERE id = ANY ($2)",
    [carrier, ids],
  );
  return { carrier, ids: ids.toSorted() };
}

async function sweep(): Promise<Map<string, string[]>> {
  const now = Date.now();
  const claims = await reclaimUnstarted(pool, {
    before: new Date(now - 15_000),
    now: new Date(now),
    limit: 500,
  });
  const found = new Map<string, string[]>();
  for (const { carrier, deliveryId } of claims) {
    found.set(carrier, [...(found.get(carrier) ?? []), deliveryId].toSorted());
  }
  return found;
}

describe("a claim whose workflow was never started", () => {
  test("is found whole by one of several concurrent sweeps, and by no later one within the same period", async () => {
    const { carrier, ids } = await claimAndDie(5);
    const sweeps = await Promise.all([sweep(), sweep(), sweep()]);
    // Sweeps that collided have skipped it; the next one finds it.
    const found = [...sweeps, await sweep()].flatMap((each) => each.get(carrier) ?? []);
    expect(found).toEqual(ids);
    expect((await sweep()).get(carrier)).toBeUndefined();
  });

  test("is skipped as a whole while another transaction locks one of its members", async () => {
    const { carrier, ids } = await claimAndDie(5);
    const other = new Client({ connectionString: made.current.config.databaseUrl });
    await other.connect();
    await other.query("SET ROLE signet_worker");
    await other.query("BEGIN");
    await other.query("SELECT id FROM deliveries WHERE id = $1 FOR UPDATE", [ids[2]]);
    expect((await sweep()).get(carrier)).toBeUndefined();
    await other.query("ROLLBACK");
    await other.end();
    expect((await sweep()).get(carrier)).toEqual(ids);
  });
});

describe("a claim of first attempts", () => {
  test("commits without waiting for the disk; later commits of its connection wait", async () => {
    const world = made.current;
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, "http://127.0.0.1:1");
    const { deliveries } = await world.publish(tenant);
    const client = await pool.connect();
    try {
      const setting = async (): Promise<unknown> =>
        (await client.query<{ synchronous_commit: string }>("SHOW synchronous_commit")).rows[0]
          ?.synchronous_commit;
      const before = await setting();
      await client.query("BEGIN");
      const { claimed } = await claimFirst(client, {
        atLeast: 1,
        limit: 64,
        carrier: newId("batch", Date.now(), randomBytes),
        exceptEndpoints: [],
        afterTenant: "",
        worker: "wrk",
        now: new Date(),
      });
      expect(claimed.map(({ deliveryId }) => deliveryId)).toContain(deliveries[0]?.id);
      expect(await setting()).toBe("off");
      await client.query("COMMIT");
      expect(await setting()).toBe(before);
    } finally {
      client.release();
    }
  });

  describe("lost in a PostgreSQL crash after its list was sent", () => {
    const instants = { startedAt: new Date(), endedAt: new Date(), durationMs: 5 };

    /** Creates a delivery without a carrier, then records the outcome that the lost carrier's sender reports. */
    async function sentAndForgotten(
      outcome: Pick<AttemptOutcome, "nextState" | "attempt" | "status">,
    ): Promise<Record<string, unknown>> {
      const world = made.current;
      const tenant = await world.createTenant();
      await world.createEndpoint(tenant, "http://127.0.0.1:1");
      const { deliveries } = await world.publish(tenant);
      const id = deliveries[0]?.id ?? "";
      const dead = outcome.nextState === "DEAD_LETTERED";
      const reported: AttemptOutcome = {
        ...instants,
        ...outcome,
        attemptId: newId("attempt", Date.now(), randomBytes),
        deliveryId: id,
        tenantId: tenant,
        carrier: newId("batch", Date.now(), randomBytes),
        epoch: 1,
        cycle: 1,
        error: outcome.nextState === "DELIVERED" ? null : "status",
        responseBody: null,
        nextAttemptAt: outcome.nextState === "RETRYING" ? new Date() : null,
        expiresAt: dead ? new Date(Date.now() + 604_800_000) : null,
        leaves: outcome.nextState === "RETRYING",
      };
      expect(await recordOutcomes(pool, [reported])).toEqual([true]);
      const { rows } = await world.sql.query<Record<string, unknown>>(
        "SELECT state, carrier, epoch, attempt_count, last_status FROM deliveries WHERE id = $1",
        [id],
      );
      return rows[0] ?? {};
    }

    test("leaves delivered deliveries delivered", async () => {
      expect(await sentAndForgotten({ nextState: "DELIVERED", attempt: 1, status: 200 })).toEqual({
        state: "DELIVERED",
        carrier: null,
        epoch: 1,
        attempt_count: 1,
        last_status: 200,
      });
    });

    test("leaves deliveries dead-lettered after their last attempt", async () => {
      const row = await sentAndForgotten({ nextState: "DEAD_LETTERED", attempt: 17, status: 500 });
      expect(row).toMatchObject({ state: "DEAD_LETTERED", attempt_count: 17, last_status: 500 });
    });

    test("leaves failed deliveries queued; the next claim finds the attempt and continues", async () => {
      const row = await sentAndForgotten({ nextState: "RETRYING", attempt: 1, status: 500 });
      expect(row).toMatchObject({ state: "QUEUED", carrier: null, epoch: 1 });
    });
  });
});
