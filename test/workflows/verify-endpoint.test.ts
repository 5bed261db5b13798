import { beforeAll, describe, expect, test } from "vitest";
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import { PING_SCHEDULE } from "#webhooks/endpoints/verification.ts";
import { takeHostPing } from "#database/repositories/endpoints/endpoint-verifications.ts";
import {
  attemptNowSignal,
  TASK_QUEUES,
  verifyStatusQuery,
  verifyWorkflowId,
  WORKFLOW_TYPES,
} from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { withoutPause } from "../support/pauses.ts";
import {
  type Behaviour,
  type ReceivedRequest,
  type Receiver,
  startReceiver,
  verifyReceived,
} from "../support/receiver-server.ts";
import { registrationOf } from "../support/registration.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

// Verifications have one workflow each, so list sizes do not matter.
const made = useWorld();
const OK: Behaviour = { kind: "answer" };
const FAILURE: Behaviour = { kind: "answer", status: 500 };

beforeAll(async () => {
  await made.current.startWorker();
});

interface Registered {
  readonly receiver: Receiver;
  readonly tenant: string;
  readonly id: string;
  readonly secret: string;
  readonly find: () => Promise<Endpoint>;
  readonly until: (wanted: (endpoint: Endpoint) => boolean) => Promise<Endpoint>;
}

async function register(...script: readonly Behaviour[]): Promise<Registered> {
  const world = made.current;
  const receiver = await startReceiver({ script });
  const tenant = await world.createTenant();
  const { endpoint, secret } = await world.endpoints.register(
    tenant,
    registrationOf(receiver.url, { metadata: '{"team":"a"}' }),
    TEST_CALLER,
  );
  const { id } = endpoint;
  const find = async (): Promise<Endpoint> => await world.endpoints.find(tenant, id);
  const until: Registered["until"] = async (wanted) =>
    await eventually(async () => {
      const current = await find();
      return wanted(current) ? current : undefined;
    }, `endpoint ${id}`);
  return { receiver, tenant, id, secret, find, until };
}

const active = ({ state }: Endpoint): boolean => state === "ACTIVE";
const pinged =
  (count: number) =>
  ({ verification_attempts: made }: Endpoint): boolean =>
    made >= count;

async function resultOf(id: string, generation = 1): Promise<unknown> {
  return await made.current.temporal.workflow.result(verifyWorkflowId(id, generation));
}

describe.concurrent("an endpoint that acknowledges its ping", () => {
  test("is ACTIVE after one signed challenge", async () => {
    const { receiver, id, secret, until } = await register(OK);
    expect(await until(active)).toMatchObject({
      verification_state: "VERIFIED",
      verification_attempts: 1,
      verification_last_error: null,
      verification_next_attempt_at: null,
    });
    expect(await resultOf(id)).toEqual({ outcome: "verified", pings: 1 });
    const [request] = receiver.requests;
    const { payload } = request === undefined ? { payload: {} } : verifyReceived(request, [secret]);
    expect(payload).toMatchObject({ type: "ping", endpoint_id: id, attempt: 1, metadata: { team: "a" } });
    expect(payload).toMatchObject({ data: { endpoint_id: id, challenge: expect.stringMatching(/^.{43}$/) } });
    expect(receiver.requests).toHaveLength(1);
    await receiver.close();
  });
});

describe.concurrent("an endpoint that does not", () => {
  const refusals: readonly (readonly [string, Behaviour, string])[] = [
    ["answers 201", { kind: "answer", status: 201 }, "status"],
    ["answers 204", { kind: "answer", status: 204 }, "status"],
    ["answers 302", { kind: "redirect", location: "/elsewhere" }, "status"],
    ["answers 500", { kind: "answer", status: 500 }, "status"],
    ["answers 200, but after more than five seconds", { kind: "answer", delayMs: 5_600 }, "timeout"],
    ["hangs up", { kind: "close" }, "aborted"],
  ];

  /** Checks that the next ping is due 8 to 12 seconds after the run began: between the registration and its ping. */
  function expectNextPing(endpoint: Endpoint, { requests }: Receiver): void {
    const dueMs = endpoint.verification_next_attempt_at?.getTime() ?? 0;
    expect(dueMs - endpoint.created_at.getTime()).toBeGreaterThan(7_900);
    expect(dueMs - (requests[0]?.receivedAt ?? 0)).toBeLessThanOrEqual(12_000);
  }

  test.each(refusals)("stays PENDING and gets no events: %s", async (_, behaviour, error) => {
    const { receiver, tenant, id, until } = await withoutPause(async () => {
      const registered = await register(behaviour, OK);
      const refused = await registered.until(pinged(1));
      expect(refused).toMatchObject({ state: "PENDING", verification_state: "RUNNING" });
      expect(refused.verification_last_error).toBe(error);
      expectNextPing(refused, registered.receiver);
      return registered;
    });
    expect((await made.current.publish(tenant)).event.deliveries).toBe(0);

    // It succeeds when another ping is requested.
    await made.current.endpoints.verify(tenant, id);
    expect(await until(active)).toMatchObject({ verification_attempts: 2 });
    expect(await resultOf(id)).toEqual({ outcome: "verified", pings: 2 });
    expect(receiver.requests).toHaveLength(2);
    expect((await made.current.publish(tenant)).event.deliveries).toBe(1);
    await receiver.close();
  });

  test("is pinged again automatically, 8 to 12 seconds after the first time", async () => {
    const { receiver, until } = await register({ kind: "answer", status: 500 }, OK);
    const refused = await until(pinged(1));
    expectNextPing(refused, receiver);
    await until(active);
    const [, second] = receiver.requests;
    expect(second?.receivedAt).toBeGreaterThan((refused.verification_next_attempt_at?.getTime() ?? 0) - 100);
    await receiver.close();
  });

  test("is pinged at once by an operator's attemptNow, which does not move the schedule", async () => {
    const { receiver, id, until } = await register({ kind: "answer", status: 500 });
    await until(pinged(1));
    const handle = made.current.temporal.workflow.getHandle(verifyWorkflowId(id, 1));
    expect(await (await handle.describe()).staticDetails()).toBe(PING_SCHEDULE);
    const { next_ping_at: next } = await handle.query(verifyStatusQuery);
    await handle.signal(attemptNowSignal);
    await until(pinged(2));
    await eventually(async () => {
      const status = await handle.query(verifyStatusQuery);
      return status.pings === 2 && status.next_ping_at === next;
    }, "the second ping, and the same time for the third");
    await receiver.close();
  });
});

describe.concurrent("the challenge in the response", () => {
  const echo = ({ rawBody }: ReceivedRequest): Behaviour => {
    const { data } = JSON.parse(rawBody.toString()) as { data: { challenge: string } };
    return { kind: "answer", body: JSON.stringify({ challenge: data.challenge }) };
  };

  test("is recorded, but optional by default", async () => {
    const bare = await register(OK);
    expect(await bare.until(active)).toMatchObject({ verified_by: "status" });
    bare.receiver.answer(echo);
    const { tenant, id, receiver } = bare;
    await made.current.endpoints.disable(tenant, id, TEST_CALLER);
    await made.current.endpoints.enable(tenant, id, TEST_CALLER);
    expect(await bare.until(active)).toMatchObject({ verified_by: "echo" });
    await receiver.close();
  });

  test("is required if the tenant wants it: a bare 200 verifies nothing", async () => {
    const { receiver, tenant, id, until } = await register(FAILURE, OK);
    await until(pinged(1));
    await made.current.endpoints.update(tenant, id, { require_echo: true }, TEST_CALLER);
    await made.current.endpoints.verify(tenant, id);
    expect(await until(pinged(2))).toMatchObject({
      state: "PENDING",
      verification_last_error: "echo",
      verified_by: null,
    });
    receiver.answer(echo);
    await made.current.endpoints.verify(tenant, id);
    expect(await until(active)).toMatchObject({ verified_by: "echo", verification_last_error: null });
    await receiver.close();
  });
});

describe("one host", () => {
  const limited = useWorld({ environment: { SIGNET_PINGS_PER_HOST: "2" } });

  beforeAll(async () => {
    await limited.current.startWorker();
  });

  test("is pinged a limited number of times per minute, regardless of tenant; the rest are retried", async () => {
    const world = limited.current;
    const receivers = [await startReceiver(), await startReceiver(), await startReceiver()];
    const results = [];
    for (const { url } of receivers) {
      const tenant = await world.createTenant();
      const { id } = await world.createEndpoint(tenant, url);
      await world.endpoints.disable(tenant, id, TEST_CALLER);
      await world.endpoints.enable(tenant, id, TEST_CALLER);
      results.push(
        await eventually(async () => {
          const current = await world.endpoints.find(tenant, id);
          return pinged(1)(current) ? current : undefined;
        }, `a ping of ${id}`),
      );
    }
    expect(results).toMatchObject([
      { state: "ACTIVE" },
      { state: "ACTIVE" },
      { state: "PENDING", verification_last_error: "limited" },
    ]);
    expect(results[2]?.verification_next_attempt_at?.getTime()).toBeGreaterThan(Date.now());
    expect(receivers.map(({ requests }) => requests.length)).toEqual([1, 1, 0]);
    await Promise.all(receivers.map(async (receiver) => await receiver.close()));
  });

  test("gets no more pings from many workers at once, and the same number in the next minute", async () => {
    const { sql } = limited.current;
    const take = async (nowMs: number): Promise<boolean> =>
      await takeHostPing(sql, "many.example", {
        now: new Date(nowMs),
        since: new Date(nowMs - 60_000),
        max: 10,
      });
    const now = Date.now();
    const taken = await Promise.all(Array.from({ length: 30 }, async () => await take(now)));
    expect(taken.filter(Boolean)).toHaveLength(10);
    expect(await take(now + 59_999)).toBe(false);
    expect(await take(now + 60_000)).toBe(true);
  });
});

describe.concurrent("a late acknowledgement", () => {
  test("does not activate an endpoint that was changed meanwhile", async () => {
    const change = Promise.withResolvers<undefined>();
    const { receiver, id, find } = await register({ kind: "answer", after: change.promise });
    await receiver.waitFor(1);
    await made.current.sql.query("UPDATE endpoints SET generation = 2 WHERE id = $1", [id]);
    change.resolve(undefined);
    expect(await resultOf(id)).toEqual({ outcome: "superseded", pings: 1 });
    expect(await find()).toMatchObject({ state: "PENDING", generation: 2 });
    await receiver.close();
  });

  test("does not bring back an endpoint that was deleted meanwhile", async () => {
    const removal = Promise.withResolvers<undefined>();
    const { receiver, tenant, id, find } = await register({ kind: "answer", after: removal.promise });
    await receiver.waitFor(1);
    await made.current.endpoints.remove(tenant, id, TEST_CALLER);
    removal.resolve(undefined);
    expect(await resultOf(id)).toEqual({ outcome: "superseded", pings: 1 });
    await expect(find()).rejects.toMatchObject({ code: "NOT_FOUND" });
    await receiver.close();
  });
});

describe.concurrent("an exhausted schedule", () => {
  test("leaves the endpoint PENDING until a request starts the next generation", async () => {
    const world = made.current;
    const receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
    const tenant = await world.createTenant();
    const watcher = await startReceiver();
    await world.createEndpoint(tenant, watcher.url, ["verification.exhausted"]);
    const { id } = await world.createEndpoint(tenant, receiver.url);
    await world.sql.query(
      "UPDATE endpoints SET state = 'PENDING', verification_state = 'WANTED' WHERE id = $1",
      [id],
    );
    await world.temporal.workflow.start(WORKFLOW_TYPES.verifyEndpoint, {
      workflowId: verifyWorkflowId(id, 1),
      taskQueue: TASK_QUEUES.verification,
      args: [{ v: 2, endpoint_id: id, generation: 1, offsets_ms: [0, 100, 200] }],
    });
    expect(await resultOf(id)).toEqual({ outcome: "exhausted", pings: 3 });
    const [notice] = await watcher.waitFor(1);
    expect(JSON.parse(notice?.rawBody.toString() ?? "")).toMatchObject({
      type: "verification.exhausted",
      data: { endpoint_id: id, generation: 1, last_error: "status" },
    });
    expect(receiver.requests).toHaveLength(3);
    expect(await world.endpoints.find(tenant, id)).toMatchObject({
      state: "PENDING",
      verification_state: "EXHAUSTED",
      verification_attempts: 3,
      verification_next_attempt_at: null,
    });

    receiver.answer([OK]);
    await world.endpoints.verify(tenant, id);
    expect(await resultOf(id, 2).catch(async () => await untilStarted(id))).toMatchObject({
      outcome: "verified",
    });
    expect(await world.endpoints.find(tenant, id)).toMatchObject({ state: "ACTIVE", generation: 2 });
    expect(watcher.requests).toHaveLength(1);
    await Promise.all([receiver.close(), watcher.close()]);
  });

  /** The api starts the run after it has responded. */
  async function untilStarted(id: string): Promise<unknown> {
    return await eventually(async () => await resultOf(id, 2).catch(() => undefined), "the second run");
  }
});

describe("one address", () => {
  const limited = useWorld({ environment: { SIGNET_PINGS_PER_HOST: "1" } });

  test("is pinged a limited number of times per minute, regardless of host name", async () => {
    const world = limited.current;
    await world.startWorker();
    const receiver = await startReceiver();
    const { port } = new URL(receiver.url);
    const states: unknown[] = [];
    for (const host of ["127.0.0.1", "localhost"]) {
      const tenant = await world.createTenant();
      const { id } = await world.createEndpoint(tenant, `http://${host}:${port}/`);
      await world.endpoints.disable(tenant, id, TEST_CALLER);
      await world.endpoints.enable(tenant, id, TEST_CALLER);
      states.push(
        await eventually(async () => {
          const current = await world.endpoints.find(tenant, id);
          return pinged(1)(current) ? current : undefined;
        }, `a ping of ${id}`),
      );
    }
    expect(states).toMatchObject([
      { state: "ACTIVE" },
      { state: "PENDING", verification_last_error: "limited" },
    ]);
    expect(receiver.requests).toHaveLength(1);
    await receiver.close();
  });
});
