import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { useWorld } from "../support/world.ts";

const world = useWorld({ environment: { SIGNET_DELIVERY_STARTS_PER_SECOND: "5" } });
const receivers: Receiver[] = [];

async function receiver(status = 200): Promise<Receiver> {
  const started = await startReceiver({ script: [{ kind: "answer", status }] });
  receivers.push(started);
  return started;
}

async function counts(tenants: readonly string[]): Promise<Record<string, number>> {
  const { rows } = await world.current.sql.query<{ state: string; n: string }>(
    "SELECT state, count(*) AS n FROM deliveries WHERE tenant_id = ANY ($1) GROUP BY state",
    [tenants],
  );
  return Object.fromEntries(rows.map((row) => [row.state, Number(row.n)]));
}

beforeAll(async () => {
  await world.current.startWorker();
});

afterEach(async () => {
  await Promise.all(receivers.splice(0).map(async (started) => await started.close()));
});

describe("deliveries that wait together", () => {
  test("share workflows, and each is sent once and recorded once", async () => {
    const { current } = world;
    const target = await receiver();
    const tenants = [await current.createTenant(), await current.createTenant()];
    for (const tenant of tenants) {
      await current.createEndpoint(tenant, target.url);
    }
    await Promise.all(
      tenants.flatMap((tenant) => Array.from({ length: 150 }, async () => await current.publish(tenant))),
    );
    await eventually(async () => (await counts(tenants))["DELIVERED"] === 300, "300 deliveries");
    expect(target.requests).toHaveLength(300);
    expect(new Set(target.requests.map((request) => request.headers["x-service-delivery-id"])).size).toBe(
      300,
    );
    const { rows } = await current.sql.query<{ carriers: string; attempts: string }>(
      `SELECT count(DISTINCT carrier) AS carriers, (SELECT count(*) FROM attempts a WHERE a.tenant_id = ANY ($1)) AS attempts
        FROM deliveries WHERE tenant_id = ANY ($1)`,
      [tenants],
    );
    expect(Number(rows[0]?.carriers)).toBeLessThan(40);
    expect(Number(rows[0]?.attempts)).toBe(300);
  });

  test("part after a failure: every workflow that retries speaks of one endpoint", async () => {
    const { current } = world;
    const [good, bad, worse] = [await receiver(), await receiver(500), await receiver(503)];
    const tenant = await current.createTenant();
    const endpoints = [];
    for (const [index, target] of [good, bad, worse].entries()) {
      endpoints.push(await current.createEndpoint(tenant, target.url, [`kind.n${index}`]));
    }
    await Promise.all(
      Array.from({ length: 60 }, async (_, index) => await current.publish(tenant, {}, `kind.n${index % 3}`)),
    );
    await eventually(async () => {
      const now = await counts([tenant]);
      return now["DELIVERED"] === 20 && now["DEAD_LETTERED"] === 40;
    }, "20 delivered, 40 dead letters");
    const { rows } = await current.sql.query<{ carrier: string; endpoints: string; members: string }>(
      `SELECT carrier, count(DISTINCT endpoint_id) AS endpoints, count(*) AS members FROM deliveries
        WHERE tenant_id = $1 AND state = 'DEAD_LETTERED' GROUP BY carrier`,
      [tenant],
    );
    expect(rows.every((row) => Number(row.endpoints) === 1)).toBe(true);
    const { rows: attempts } = await current.sql.query<{ n: string }>(
      `SELECT count(*) AS n FROM attempts WHERE tenant_id = $1 GROUP BY delivery_id ORDER BY n DESC`,
      [tenant],
    );
    expect(attempts.slice(0, 40).every((row) => Number(row.n) === 17)).toBe(true);
    expect(attempts.slice(40).every((row) => Number(row.n) === 1)).toBe(true);
  });
});
