/** An endpoint that has failed for long enough to be disabled, and one that only appears to. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { EndpointFailures } from "#webhooks/pacing/endpoint-failures.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { createGoneDisabler, disableFailing, writeFailures } from "#webhooks/endpoints/disable-failing.ts";
import { createLogger } from "#observability/logger.ts";
import { eventually } from "../support/eventually.ts";
import { createGate } from "../support/gate.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { testKeyring } from "../support/keyring.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

const HOUR_MS = 3_600_000;
const log = createLogger({ level: "error" });

describe("a worker", () => {
  const made = useWorld({ retryWindowMs: 2_000, environment: { SIGNET_AUTO_DISABLE_AFTER: "3s" } });

  beforeAll(async () => {
    await made.current.startWorker();
  });

  test("disables an endpoint after its deadline, notifies the tenant's other endpoints and the log, and sends nothing new", async () => {
    const world = made.current;
    const [receiver, watcher] = [
      await startReceiver({ script: [{ kind: "answer", status: 404 }] }),
      await startReceiver(),
    ];
    const tenant = await world.createTenant();
    const { id } = await world.createEndpoint(tenant, receiver.url, ["*"]);
    await world.createEndpoint(tenant, watcher.url, ["endpoint.disabled"]);
    const { deliveries } = await world.publish(tenant);
    const exhausted = await world.untilDelivery(
      tenant,
      deliveries[0]?.id ?? "",
      ({ state }) => state === "DEAD_LETTERED",
    );
    expect(exhausted).toMatchObject({ attempt_count: 17, reason: "attempts_exhausted" });
    const disabled = await eventually(async () => {
      const current = await world.endpoints.find(tenant, id);
      return current.state === "DISABLED" ? current : undefined;
    }, "the endpoint to be disabled");
    expect(disabled).toMatchObject({ disabled_reason: "failing", generation: 1 });

    const [notice] = await watcher.waitFor(1);
    expect(JSON.parse(notice?.rawBody.toString() ?? "")).toMatchObject({
      type: "endpoint.disabled",
      source: "service",
      data: { endpoint_id: id, reason: "failing" },
    });
    expect(receiver.requests).toHaveLength(17);
    const logged = await world.sql.query<{ entry: unknown }>(
      "SELECT convert_from(entry, 'UTF8')::json AS entry FROM clog WHERE type = 'endpoint.disabled'",
    );
    expect(logged.rows).toMatchObject([
      { entry: { actor: "system:worker", tenant, target: id, details: { reason: "failing" } } },
    ]);
    const after = await world.publish(tenant);
    expect(after.deliveries).toMatchObject([{ state: "DEAD_LETTERED", reason: "endpoint_disabled" }]);

    // Its tenant has fixed it, so it starts again.
    receiver.answer([{ kind: "answer" }]);
    await world.endpoints.enable(tenant, id, TEST_CALLER);
    await eventually(
      async () => (await world.endpoints.find(tenant, id)).state === "ACTIVE",
      "the endpoint to be verified",
    );
    expect(await failuresOf(id)).toEqual([]);
    await Promise.all([receiver.close(), watcher.close()]);
  });

  async function failuresOf(id: string): Promise<unknown[]> {
    const { rows } = await made.current.sql.query("SELECT * FROM endpoint_failures WHERE endpoint_id = $1", [
      id,
    ]);
    return rows;
  }
});

describe("an endpoint that answers 410 Gone", () => {
  const made = useWorld();

  beforeAll(async () => {
    await made.current.startWorker();
  });

  test("is disabled at once with a reason and a notification, gets nothing more, and works again once enabled", async () => {
    const world = made.current;
    const receiver = await startReceiver({ script: [{ kind: "answer", status: 410 }] });
    const watcher = await startReceiver();
    const tenant = await world.createTenant();
    const { id } = await world.createEndpoint(tenant, receiver.url, ["*"]);
    await world.createEndpoint(tenant, watcher.url, ["endpoint.disabled"]);
    const [delivery] = (await world.publish(tenant)).deliveries;
    const disabled = await eventually(async () => {
      const current = await world.endpoints.find(tenant, id);
      return current.state === "DISABLED" ? current : undefined;
    }, "the endpoint to be disabled");
    expect(disabled).toMatchObject({ disabled_reason: "gone", generation: 1 });

    const [notice] = await watcher.waitFor(1);
    expect(JSON.parse(notice?.rawBody.toString() ?? "")).toMatchObject({
      type: "endpoint.disabled",
      data: { endpoint_id: id, reason: "gone", disabled_at: expect.any(String) },
    });
    const { rows } = await world.sql.query<{ entry: unknown }>(
      "SELECT convert_from(entry, 'UTF8')::json AS entry FROM clog WHERE type = 'endpoint.disabled' AND tenant_id = $1",
      [tenant],
    );
    expect(rows).toMatchObject([
      { entry: { actor: "system:worker", target: id, details: { reason: "gone" } } },
    ]);
    // Its pending delivery becomes a dead letter at its next attempt, a new one at once.
    const after = await world.publish(tenant);
    expect(after.deliveries).toMatchObject([{ state: "DEAD_LETTERED", reason: "endpoint_disabled" }]);
    const begun = await world.untilDelivery(
      tenant,
      delivery?.id ?? "",
      ({ state }) => state === "DEAD_LETTERED",
    );
    expect(begun).toMatchObject({ attempt_count: 1, reason: "endpoint_disabled" });
    expect(receiver.requests).toHaveLength(1);

    receiver.answer([{ kind: "answer" }]);
    await world.endpoints.enable(tenant, id, TEST_CALLER);
    await eventually(
      async () => (await world.endpoints.find(tenant, id)).state === "ACTIVE",
      "the endpoint to be verified",
    );
    await Promise.all([receiver.close(), watcher.close()]);
  });

  test("stays active if its URL has changed since", async () => {
    const world = made.current;
    const tenant = await world.createTenant();
    const receiver = await startReceiver();
    const { id } = await world.createEndpoint(tenant, receiver.url, ["*"]);
    const pool = createPool({ url: world.config.databaseUrl, role: "signet_worker", max: 1, log });
    const disableGone = createGoneDisabler({
      pool,
      keyring: testKeyring(world.config.kek ?? Buffer.alloc(0)),
      clock: systemClock,
      randomBytes,
      deadLetterMs: HOUR_MS,
      log,
    });
    await disableGone({ tenantId: tenant, endpointId: id, url: "https://before.example/" });
    expect(await world.endpoints.find(tenant, id)).toMatchObject({ state: "ACTIVE", disabled_reason: null });
    await Promise.all([receiver.close(), pool.end()]);
  });
});

describe("the verdict", () => {
  // This world's worker never gives the verdict; the tests do, at chosen moments.
  const made = useWorld({ retryWindowMs: 20_000, environment: { SIGNET_AUTO_DISABLE_AFTER: "0" } });
  let pool: Pool;

  beforeAll(async () => {
    await made.current.startWorker();
    pool = createPool({ url: made.current.config.databaseUrl, role: "signet_worker", max: 2, log });
  });
  afterAll(async () => {
    await pool.end();
  });

  async function giveVerdict(afterMs = 120 * HOUR_MS): Promise<number> {
    return await disableFailing({
      pool,
      keyring: testKeyring(made.current.config.kek ?? Buffer.alloc(0)),
      clock: systemClock,
      randomBytes,
      deadLetterMs: HOUR_MS,
      log,
      afterMs,
    });
  }

  interface Failing {
    readonly receiver: Receiver;
    readonly tenant: string;
    readonly id: string;
  }

  /** Creates an endpoint that has failed for `hours`, according to the workers' reports. */
  async function failingFor(hours: number, exhausted = true): Promise<Failing> {
    const world = made.current;
    const receiver = await startReceiver();
    const tenant = await world.createTenant();
    const { id } = await world.createEndpoint(tenant, receiver.url);
    const failures = new EndpointFailures();
    const sinceMs = Date.now() - hours * HOUR_MS;
    failures.note(id, { ok: false, last: false }, sinceMs);
    if (exhausted) {
      failures.note(id, { ok: false, last: true }, sinceMs + 72 * HOUR_MS);
    }
    await writeFailures(pool, failures);
    return { receiver, tenant, id };
  }

  async function stateOf({ tenant, id }: Failing): Promise<string> {
    return (await made.current.endpoints.find(tenant, id)).state;
  }

  test.each<[string, number, boolean, string]>([
    ["falls after 120 hours of failing", 121, true, "DISABLED"],
    ["does not fall before", 119, true, "ACTIVE"],
    ["does not fall while no delivery is exhausted", 500, false, "ACTIVE"],
  ])("%s", async (_name, hours, exhausted, state) => {
    const failing = await failingFor(hours, exhausted);
    await giveVerdict();
    expect(await stateOf(failing)).toBe(state);
    await failing.receiver.close();
  });

  test("considers a 2xx that another worker reported", async () => {
    const failing = await failingFor(500);
    const others = new EndpointFailures();
    others.note(failing.id, { ok: true, last: false }, Date.now() - HOUR_MS);
    await writeFailures(pool, others);
    await giveVerdict();
    expect(await stateOf(failing)).toBe("ACTIVE");
    await failing.receiver.close();
  });

  test("considers a 2xx that was recorded but not reported, because its worker died", async () => {
    const world = made.current;
    const failing = await failingFor(500);
    const { deliveries } = await world.publish(failing.tenant);
    await world.untilDelivery(failing.tenant, deliveries[0]?.id ?? "", ({ state }) => state === "DELIVERED");
    await world.sql.query(
      `INSERT INTO endpoint_failures VALUES ($1, now() - interval '500 hours', now() - interval '400 hours')
        ON CONFLICT (endpoint_id) DO UPDATE SET failing_since = excluded.failing_since`,
      [failing.id],
    );
    await giveVerdict();
    expect(await stateOf(failing)).toBe("ACTIVE");
    await failing.receiver.close();
  });

  test("remains when a 2xx arrives right after it: the delivery counts, the endpoint stays disabled", async () => {
    const world = made.current;
    const failing = await failingFor(500);
    const gate = createGate();
    failing.receiver.answer([{ kind: "answer", after: gate.opened }]);
    const { deliveries } = await world.publish(failing.tenant);
    await failing.receiver.waitFor(1);
    expect(await giveVerdict()).toBe(1);
    gate.open();
    await world.untilDelivery(failing.tenant, deliveries[0]?.id ?? "", ({ state }) => state === "DELIVERED");
    expect(await stateOf(failing)).toBe("DISABLED");
    await failing.receiver.close();
  });

  test("is given once, even by several workers at the same time", async () => {
    const failing = await failingFor(500);
    const given = await Promise.all([giveVerdict(), giveVerdict(), giveVerdict()]);
    expect(given.reduce((sum, one) => sum + one, 0)).toBe(1);
    expect(await stateOf(failing)).toBe("DISABLED");
    await failing.receiver.close();
  });

  test("changes nothing if the tenant has already disabled the endpoint", async () => {
    const failing = await failingFor(500);
    await made.current.endpoints.disable(failing.tenant, failing.id, TEST_CALLER);
    expect(await giveVerdict()).toBe(0);
    expect(await made.current.endpoints.find(failing.tenant, failing.id)).toMatchObject({
      disabled_reason: "tenant",
    });
    await failing.receiver.close();
  });
});
