import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool, type Pool } from "../../src/database/pool.ts";
import { reclaimUnstarted } from "../../src/database/repositories/claims.ts";
import { newId } from "../../src/domain/ids.ts";
import { createLogger } from "../../src/observability/logger.ts";
import { useWorld } from "../support/world.ts";

// The size of lists does not come into it: a claim is started again as it was made, and the lists here are made by hand.
// No worker: the tests claim as a worker does that has died since.
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

/** Deliveries that were claimed together 20 seconds ago, and whose workflow was never started. */
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

describe("a claim that was never started", () => {
  test("is found whole by one of the sweeps beside each other, and by no other for as long again", async () => {
    const { carrier, ids } = await claimAndDie(5);
    const sweeps = await Promise.all([sweep(), sweep(), sweep()]);
    // Those that met in its middle have left it; then the next one has it.
    const found = [...sweeps, await sweep()].flatMap((each) => each.get(carrier) ?? []);
    expect(found).toEqual(ids);
    expect((await sweep()).get(carrier)).toBeUndefined();
  });

  test("is left alone while somebody else holds one of its members: no part of it is started without the rest", async () => {
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
