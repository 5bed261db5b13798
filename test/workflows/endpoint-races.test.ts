/**
 * Two concurrent changes to an endpoint, in both orders. Receivers answer when the test allows it, and the test holds
 * rows until the others wait for them, so every order is deterministic.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import { verifyWorkflowId } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { createGate, type Gate } from "../support/gate.ts";
import { type Behaviour, type Receiver, startReceiver } from "../support/receiver-server.ts";
import { registrationOf } from "../support/registration.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

const made = useWorld({ retryWindowMs: 20_000 });
const OK: Behaviour = { kind: "answer" };
const FAILURE: Behaviour = { kind: "answer", status: 500 };

beforeAll(async () => {
  await made.current.startWorker();
});

interface Subject {
  readonly receiver: Receiver;
  readonly tenant: string;
  readonly id: string;
  readonly find: () => Promise<Endpoint>;
  readonly until: (state: Endpoint["state"]) => Promise<Endpoint>;
}

async function subject(receiver: Receiver, tenant: string, id: string): Promise<Subject> {
  const find = async (): Promise<Endpoint> => await made.current.endpoints.find(tenant, id);
  const until: Subject["until"] = async (state) =>
    await eventually(async () => {
      const current = await find();
      return current.state === state ? current : undefined;
    }, `endpoint ${id} to be ${state}`);
  return { receiver, tenant, id, find, until };
}

/** Registers an endpoint whose first ping is answered as the script says. */
async function register(...script: readonly Behaviour[]): Promise<Subject> {
  const world = made.current;
  const receiver = await startReceiver({ script });
  const tenant = await world.createTenant();
  const { endpoint } = await world.endpoints.register(tenant, registrationOf(receiver.url), TEST_CALLER);
  return await subject(receiver, tenant, endpoint.id);
}

/** Creates an ACTIVE endpoint with a delivery whose request waits at the gate. */
async function inFlight(gate: Gate, status: number): Promise<Subject & { readonly delivery: string }> {
  const world = made.current;
  const receiver = await startReceiver({ script: [{ kind: "answer", status, after: gate.opened }, OK] });
  const tenant = await world.createTenant();
  const { id } = await world.createEndpoint(tenant, receiver.url);
  const { deliveries } = await world.publish(tenant);
  await receiver.waitFor(1);
  return { ...(await subject(receiver, tenant, id)), delivery: deliveries[0]?.id ?? "" };
}

interface Pinged extends Subject {
  /** Answers the ping; resolves with the result of the run. */
  readonly answer: () => Promise<unknown>;
}

/** Registers an endpoint whose first ping waits at the gate. The script answers later pings. */
async function pinged(...script: readonly Behaviour[]): Promise<Pinged> {
  const gate = createGate();
  const endpoint = await register({ kind: "answer", after: gate.opened }, ...script);
  await endpoint.receiver.waitFor(1);
  const answer = async (): Promise<unknown> => {
    gate.open();
    return await resultOf(endpoint.id, 1);
  };
  return { ...endpoint, answer };
}

async function resultOf(id: string, generation: number): Promise<unknown> {
  return await made.current.temporal.workflow.result(verifyWorkflowId(id, generation));
}

/**
 * Holds the endpoint's row, starts the operations in the given order, each once the previous one waits for the row, and
 * releases it. PostgreSQL serves the longest waiter first.
 */
async function inOrder(
  id: string,
  ...works: readonly (() => Promise<unknown>)[]
): Promise<PromiseSettledResult<unknown>[]> {
  const { sql } = made.current;
  const client = await sql.connect();
  const begun: Promise<unknown>[] = [];
  try {
    await client.query("BEGIN");
    await client.query("SELECT FROM endpoints WHERE id = $1 FOR UPDATE", [id]);
    for (const work of works) {
      const promise = work();
      promise.catch(() => undefined);
      begun.push(promise);
      await eventually(async () => (await waitingFor(id)) >= begun.length, "the row to be waited for");
    }
    await client.query("COMMIT");
  } finally {
    client.release();
  }
  return await Promise.allSettled(begun);
}

/** Counts the sessions that wait for a lock with a statement about endpoints. */
async function waitingFor(id: string): Promise<number> {
  expect(id).toMatch(/^ep_/);
  const { rows } = await made.current.sql.query<{ n: number }>(
    `SELECT count(*)::int AS n FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ 'endpoints'`,
  );
  return rows[0]?.n ?? 0;
}

const refused = { status: "rejected", reason: { code: "INVALID_STATE" } };
const done = { status: "fulfilled" };

describe("a ping's 200 and a change of URL", () => {
  test("the change comes first: the old URL's answer verifies nothing", async () => {
    const { receiver, tenant, id, find, answer } = await pinged();
    const other = await startReceiver({ script: [FAILURE] });
    await made.current.endpoints.update(tenant, id, { url: other.url }, TEST_CALLER);
    expect(await answer()).toEqual({ outcome: "superseded", pings: 1 });
    await other.waitFor(1);
    expect(await find()).toMatchObject({ state: "PENDING", generation: 2, verified_at: null });
    other.answer([OK]);
    await made.current.endpoints.verify(tenant, id);
    await eventually(async () => (await find()).state === "ACTIVE", "the new URL to be verified");
    await Promise.all([receiver.close(), other.close()]);
  });

  test("the change comes second: the endpoint was ACTIVE and is PENDING", async () => {
    const { receiver, tenant, id, until } = await register(OK);
    await until("ACTIVE");
    const other = await startReceiver();
    expect(await made.current.endpoints.update(tenant, id, { url: other.url }, TEST_CALLER)).toMatchObject({
      state: "PENDING",
      generation: 2,
    });
    await until("ACTIVE");
    expect(other.requests).toHaveLength(1);
    expect(receiver.requests).toHaveLength(1);
    await Promise.all([receiver.close(), other.close()]);
  });

  test("both wait for the same row: an answer after the change sees it", async () => {
    const { receiver, tenant, id, find, answer } = await pinged();
    const other = await startReceiver({ script: [FAILURE] });
    const results = await inOrder(
      id,
      async () => await made.current.endpoints.update(tenant, id, { url: other.url }, TEST_CALLER),
      answer,
    );
    expect(results).toMatchObject([done, { value: { outcome: "superseded" } }]);
    expect(await find()).toMatchObject({ state: "PENDING", generation: 2 });
    await Promise.all([receiver.close(), other.close()]);
  });

  test("both wait for the same row: an answer before the change counts until then", async () => {
    const { receiver, tenant, id, find, answer } = await pinged();
    const other = await startReceiver({ script: [FAILURE] });
    const results = await inOrder(
      id,
      answer,
      async () => await made.current.endpoints.update(tenant, id, { url: other.url }, TEST_CALLER),
    );
    expect(results).toMatchObject([{ value: { outcome: "verified" } }, done]);
    expect(await find()).toMatchObject({ state: "PENDING", generation: 2 });
    await Promise.all([receiver.close(), other.close()]);
  });
});

describe("a ping's 200 and disabling by the tenant", () => {
  test("disabled first: the endpoint stays disabled, and is pinged again once enabled", async () => {
    const { receiver, tenant, id, find, until, answer } = await pinged(OK);
    await made.current.endpoints.disable(tenant, id, TEST_CALLER);
    expect(await answer()).toEqual({ outcome: "superseded", pings: 1 });
    expect(await find()).toMatchObject({ state: "DISABLED", disabled_reason: "tenant" });
    await made.current.endpoints.enable(tenant, id, TEST_CALLER);
    expect(await until("ACTIVE")).toMatchObject({ generation: 2, verification_attempts: 1 });
    expect(receiver.requests).toHaveLength(2);
    await receiver.close();
  });

  test("both wait for the same row: verified, then disabled", async () => {
    const { receiver, tenant, id, find, answer } = await pinged();
    const results = await inOrder(
      id,
      answer,
      async () => await made.current.endpoints.disable(tenant, id, TEST_CALLER),
    );
    expect(results).toMatchObject([{ value: { outcome: "verified" } }, done]);
    expect(await find()).toMatchObject({ state: "DISABLED", verification_state: "VERIFIED" });
    await receiver.close();
  });
});

describe("a ping's 200 and the deletion", () => {
  test.each([["before", true] as const, ["after", false] as const])(
    "deleted %s the answer: the endpoint is gone",
    async (_name, deletedFirst) => {
      const { receiver, tenant, id, find, answer } = await pinged();
      const remove = async (): Promise<void> => await made.current.endpoints.remove(tenant, id, TEST_CALLER);
      const results = await inOrder(id, ...(deletedFirst ? [remove, answer] : [answer, remove]));
      const ping = { value: { outcome: deletedFirst ? "superseded" : "verified" } };
      expect(results).toMatchObject(deletedFirst ? [done, ping] : [ping, done]);
      await expect(find()).rejects.toMatchObject({ code: "NOT_FOUND" });
      await receiver.close();
    },
  );
});

describe("a delivery in flight", () => {
  test.each([
    [200, "DELIVERED"],
    [500, "DEAD_LETTERED"],
  ] as const)("when its endpoint is disabled, and answered %i after that, is %s", async (status, state) => {
    const gate = createGate();
    const { receiver, tenant, id, delivery } = await inFlight(gate, status);
    await made.current.endpoints.disable(tenant, id, TEST_CALLER);
    gate.open();
    const ended = await made.current.untilDelivery(tenant, delivery, (current) => current.state === state);
    expect(ended).toMatchObject({ attempt_count: 1, reason: status === 200 ? null : "endpoint_disabled" });
    expect(receiver.requests).toHaveLength(1);
    await receiver.close();
  });

  test.each([
    [200, "DELIVERED"],
    [500, "CANCELLED"],
  ] as const)("when its endpoint is deleted, and answered %i after that, is %s", async (status, state) => {
    const gate = createGate();
    const { receiver, tenant, id, delivery } = await inFlight(gate, status);
    await made.current.endpoints.remove(tenant, id, TEST_CALLER);
    gate.open();
    await made.current.untilDelivery(tenant, delivery, (current) => current.state === state);
    expect(receiver.requests).toHaveLength(1);
    await receiver.close();
  });

  test("when its endpoint gets another URL, is answered by the old one or goes to the verified new one", async () => {
    const gate = createGate();
    const { receiver, tenant, id, delivery } = await inFlight(gate, 500);
    const other = await startReceiver();
    await made.current.endpoints.update(tenant, id, { url: other.url }, TEST_CALLER);
    gate.open();
    await made.current.untilDelivery(tenant, delivery, ({ state }) => state === "DELIVERED");
    expect(receiver.requests).toHaveLength(1);
    expect(other.requests.map(({ headers }) => headers["x-service-event-type"])).toEqual([
      "ping",
      "inference.completed",
    ]);
    await Promise.all([receiver.close(), other.close()]);
  });
});

describe("two requests at once", () => {
  async function disabled(): Promise<Subject> {
    const world = made.current;
    const receiver = await startReceiver({ script: [FAILURE] });
    const tenant = await world.createTenant();
    const { id } = await world.createEndpoint(tenant, receiver.url);
    await world.endpoints.disable(tenant, id, TEST_CALLER);
    return await subject(receiver, tenant, id);
  }

  test("both enable: the first succeeds, the second is refused, and one series of pings starts", async () => {
    const { receiver, tenant, id, find } = await disabled();
    const enable = async (): Promise<Endpoint> =>
      await made.current.endpoints.enable(tenant, id, TEST_CALLER);
    expect(await inOrder(id, enable, enable)).toMatchObject([done, refused]);
    expect(await find()).toMatchObject({ state: "PENDING", generation: 2 });
    await receiver.waitFor(1);
    await receiver.close();
  });

  test("one enables and one disables: the later one decides", async () => {
    const { receiver, tenant, id, find } = await disabled();
    const enable = async (): Promise<Endpoint> =>
      await made.current.endpoints.enable(tenant, id, TEST_CALLER);
    const disable = async (): Promise<Endpoint> =>
      await made.current.endpoints.disable(tenant, id, TEST_CALLER);
    expect(await inOrder(id, enable, disable)).toMatchObject([done, done]);
    expect(await find()).toMatchObject({ state: "DISABLED", disabled_reason: "tenant" });
    expect(await inOrder(id, disable, enable)).toMatchObject([refused, done]);
    expect(await find()).toMatchObject({ state: "PENDING", generation: 3 });
    await receiver.close();
  });

  test("one requests a ping and one enables: a ping needs an endpoint that waits for one", async () => {
    const { receiver, tenant, id, find } = await disabled();
    await expect(made.current.endpoints.verify(tenant, id)).rejects.toMatchObject({ code: "INVALID_STATE" });
    await made.current.endpoints.enable(tenant, id, TEST_CALLER);
    // A ping requested before the first was sent is that first one.
    await receiver.waitFor(1);
    await made.current.endpoints.verify(tenant, id);
    await receiver.waitFor(2);
    expect(await find()).toMatchObject({ state: "PENDING", generation: 2 });
    await receiver.close();
  });
});
