/** Counts agree with the rows whatever happens to the deliveries, and health follows the attempts. */
import { beforeAll, expect, test } from "vitest";
import { addsUp, balanceHour } from "#database/repositories/webhooks/delivery-balance.ts";
import { readCounts, readUsage } from "#database/repositories/webhooks/delivery-counts.ts";
import { HOUR_MS } from "#domain/ids.ts";
import { eventually } from "../support/eventually.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

const made = useWorld({ retryWindowMs: 1_000, listMax: 64 });
/** Whose deliveries retry for longer than a busy machine takes to notice that their endpoint fails. */
const patient = useWorld({ retryWindowMs: 60_000, listMax: 64 });
/** Longer than what is stored beside a delivery: such an attempt gets a row of its own. */
const LONG_BODY = "x".repeat(2_000);

beforeAll(async () => {
  await Promise.all([made, patient].map(async ({ current }) => await current.startWorker()));
});

const thisHour = (): number => Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
/** The hours in which a test may have begun and ended. */
const hours = (): Date[] => [new Date(thisHour() - HOUR_MS), new Date(thisHour())];
const span = (): { from: Date; to: Date } => ({
  from: new Date(thisHour() - HOUR_MS),
  to: new Date(thisHour() + HOUR_MS),
});

async function makeDeliveries(tenant: string, count: number, { current } = made): Promise<string[]> {
  const published = await Promise.all(
    Array.from({ length: count }, async () => await current.publish(tenant)),
  );
  return published.map(({ deliveries }) => deliveries[0]?.id ?? "");
}

async function until(
  tenant: string,
  ids: readonly string[],
  state: string,
  { current } = made,
): Promise<void> {
  await Promise.all(
    ids.map(async (id) => await current.untilDelivery(tenant, id, (found) => found.state === state)),
  );
}

async function balances(tenant: string) {
  const client = await made.current.sql.connect();
  try {
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const found = await Promise.all(hours().map(async (hour) => await balanceHour(client, hour, tenant)));
    await client.query("COMMIT");
    return found.flat();
  } finally {
    client.release();
  }
}

/** Returns the sums of both hours. */
async function countsOf(tenant: string): Promise<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const { hour: _hour, ...counts } of await readCounts(made.current.sql, { tenantId: tenant }, span())) {
    for (const [name, count] of Object.entries(counts)) {
      sums[name] = (sums[name] ?? 0) + count;
    }
  }
  return sums;
}

async function storedAttempts(tenant: string): Promise<{ attempts: number; failed: number }> {
  const { rows } = await made.current.sql.query<{ attempts: number; failed: number }>(
    `SELECT count(*)::int AS attempts, count(error)::int AS failed FROM (
      SELECT error FROM attempts WHERE tenant_id = $1 AND duration_ms IS NOT NULL
      UNION ALL SELECT NULL FROM deliveries WHERE tenant_id = $1 AND first_duration_ms IS NOT NULL) all_attempts`,
    [tenant],
  );
  return rows[0] ?? { attempts: 0, failed: 0 };
}

async function failingReceiver(): Promise<Receiver> {
  return await startReceiver({ script: [{ kind: "answer", status: 500 }] });
}

test("deliveries are counted once in their state: delivered, retried, dead, replayed, cancelled, and to disabled endpoints", async () => {
  const world = made.current;
  const tenant = await world.createTenant();
  const [quick, long, failing] = [
    await startReceiver(),
    await startReceiver({ script: [{ kind: "answer", body: LONG_BODY }] }),
    await failingReceiver(),
  ];
  const endpoint = await world.createEndpoint(tenant, quick.url);
  const delivered = await makeDeliveries(tenant, 20);
  await until(tenant, delivered, "DELIVERED");

  const other = await world.createTenant();
  await world.createEndpoint(other, long.url);
  await until(other, await makeDeliveries(other, 5), "DELIVERED");
  expect(await countsOf(other)).toMatchObject({ accepted: 5, delivered: 5, attempts: 5, failed: 0 });

  const third = await world.createTenant();
  const { id: dying } = await world.createEndpoint(third, failing.url);
  const letters = await makeDeliveries(third, 6);
  await until(third, letters, "DEAD_LETTERED");
  failing.answer([{ kind: "answer" }]);
  const [replayed = "", cancelled = "", ...rest] = letters;
  await world.deliveries.replay(third, replayed, TEST_CALLER);
  await world.deliveries.cancel(third, cancelled);
  await until(third, [replayed], "DELIVERED");
  await world.endpoints.disable(third, dying, TEST_CALLER);
  const atOnce = await makeDeliveries(third, 2);
  await until(third, atOnce, "DEAD_LETTERED");
  expect(await countsOf(third)).toMatchObject({
    events: 8,
    accepted: 8,
    delivered: 1,
    dead: rest.length + atOnce.length,
    cancelled: 1,
    attempts: 6 * 17 + 1,
    failed: 6 * 17,
  });

  for (const each of [tenant, other, third]) {
    const found = await balances(each);
    expect(found.filter((balance) => !addsUp(balance))).toEqual([]);
    expect(found.length).toBeGreaterThan(0);
    const { attempts, failed } = await storedAttempts(each);
    expect(await countsOf(each)).toMatchObject({ attempts, failed });
    // Folding moves counts without changing them.
    await eventually(
      async () =>
        (await world.sql.query("SELECT FROM delivery_changes WHERE tenant_id = $1", [each])).rowCount === 0,
      "the fold",
    );
    expect(await countsOf(each)).toMatchObject({ attempts, failed });
    expect((await balances(each)).filter((balance) => !addsUp(balance))).toEqual([]);
  }
  const activity = await world.endpoints.activity(third, [dying]);
  expect(activity.get(dying)).toMatchObject({ retrying: 0, dead: rest.length + atOnce.length });
  const days = await readUsage(world.sql, [tenant], { ...span(), limit: 10 });
  expect(days.reduce((sum, { events }) => sum + events, 0)).toBe(20);
  expect(days.every(({ bytes }) => bytes > 0)).toBe(true);
  expect(endpoint.id).not.toBe(dying);
});

test("a count that disagrees with the rows is found", async () => {
  const world = made.current;
  const tenant = await world.createTenant();
  const receiver = await startReceiver();
  await world.createEndpoint(tenant, receiver.url);
  const [lost = "", ...others] = await makeDeliveries(tenant, 3);
  await until(tenant, [lost, ...others], "DELIVERED");
  await world.sql.query("DELETE FROM deliveries WHERE id = $1", [lost]);
  const found = (await balances(tenant)).filter((balance) => !addsUp(balance));
  expect(found).toMatchObject([{ counted: { accepted: 3 }, stored: { accepted: 2 } }]);
});

test("an endpoint that fails five times in a row is failing, its tenant's others are notified, and it recovers", async () => {
  const world = patient.current;
  const tenant = await world.createTenant();
  const [receiver, watcher] = [await failingReceiver(), await startReceiver()];
  const { id } = await world.createEndpoint(tenant, receiver.url);
  await world.createEndpoint(tenant, watcher.url, ["endpoint.failing", "endpoint.recovered"]);
  const health = async () => (await world.endpoints.activity(tenant, [id])).get(id);

  const ids = await makeDeliveries(tenant, 5, patient);
  const failing = await eventually(async () => {
    const found = await health();
    return found?.health === "failing" ? found : undefined;
  }, "a failing endpoint");
  expect(failing).toMatchObject({ lastFailure: { status: 500, error: "status" } });
  expect(failing.recent.failed).toBeGreaterThanOrEqual(5);
  expect(failing.failing_since).not.toBeNull();
  expect(await world.endpoints.unhealthy(tenant)).toEqual([{ endpoint_id: id, health: "failing" }]);
  const page = { metadata: undefined, before: undefined, limit: 10 };
  expect(await world.endpoints.list(tenant, { ...page, health: "failing" })).toMatchObject([{ id }]);
  const [told] = await watcher.waitFor(1);
  await eventually(
    async () => (await world.endpoints.list(tenant, { ...page, health: "healthy" })).length === 1,
    "the health of the other endpoint, after its first attempt",
  );
  expect(JSON.parse(String(told?.rawBody))).toMatchObject({
    type: "endpoint.failing",
    data: { endpoint_id: id, health: "failing", last_error: { status: 500, error: "status" } },
  });

  receiver.answer([{ kind: "answer" }]);
  await until(tenant, ids, "DELIVERED", patient);
  await until(tenant, await makeDeliveries(tenant, 20, patient), "DELIVERED", patient);
  await eventually(async () => (await health())?.health === "healthy", "a healthy endpoint");
  expect(await health()).toMatchObject({ failing_since: null, retrying: 0, dead: 0 });
  const requests = await watcher.waitFor(2);
  expect(JSON.parse(String(requests[1]?.rawBody))).toMatchObject({
    type: "endpoint.recovered",
    data: { endpoint_id: id },
  });
});
