/** Resends, and replay jobs over deliveries in several states, with a worker: cycles, attempts, outcomes. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import type { ReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";
import type { StatesSelection } from "#database/repositories/webhooks/replay-items.ts";
import { replayWorkflowId } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { type Behaviour, type Receiver, startReceiver } from "../support/receiver-server.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

// The real schedule: a requested wait of an hour is one.
const made = useWorld({ retryWindowMs: 259_200_000 });
const receivers: Receiver[] = [];

beforeAll(async () => {
  await made.current.startWorker();
});
afterAll(async () => {
  await Promise.all(receivers.map(async (receiver) => await receiver.close()));
});

const OK: Behaviour = { kind: "answer", status: 200, body: "thank you" };
/** The next attempt is due in an hour. */
const LATER: Behaviour = { kind: "answer", status: 503, headers: { "Retry-After": "3600" } };

const delivered = ({ state }: Delivery): boolean => state === "DELIVERED";

interface Made {
  readonly tenant: string;
  readonly endpointId: string;
  readonly receiver: Receiver;
  readonly ids: readonly string[];
  /** The first delivery. */
  readonly id: string;
  readonly until: (wanted: (delivery: Delivery) => boolean, id?: string) => Promise<Delivery>;
  readonly resend: () => Promise<Delivery>;
}

async function make(script: readonly Behaviour[], count = 1): Promise<Made> {
  const world = made.current;
  const receiver = await startReceiver({ script });
  receivers.push(receiver);
  const tenant = await world.createTenant();
  const { id: endpointId } = await world.createEndpoint(tenant, receiver.url);
  const published = await Promise.all(Array.from({ length: count }, async () => await world.publish(tenant)));
  const ids = published.map(({ deliveries }) => deliveries[0]?.id ?? "");
  const [id = ""] = ids;
  return {
    tenant,
    endpointId,
    receiver,
    ids,
    id,
    until: async (wanted, which = id) => await world.untilDelivery(tenant, which, wanted),
    resend: async () => await world.deliveries.resend(tenant, id, TEST_CALLER),
  };
}

async function replay({ tenant }: Pick<Made, "tenant">, selection: StatesSelection): Promise<ReplayJob> {
  const world = made.current;
  const job = await world.makeReplay(tenant, { selection, ratePerSecond: 500 });
  world.replays.kick(job);
  return await eventually(async () => {
    const found = await world.replays.find(tenant, job.id);
    return found.state === "COMPLETED" ? found : undefined;
  }, `replay ${job.id}`);
}

describe("a resend", () => {
  test("delivers again with the same webhook-id, and keeps the first attempt in the log", async () => {
    const reply = Promise.withResolvers<undefined>();
    const { tenant, id, receiver, until, resend } = await make([OK, { ...OK, after: reply.promise }, OK]);
    await until(delivered);
    const [first] = await made.current.attempts(tenant, id);
    expect(await resend()).toMatchObject({ state: "QUEUED", cycle: 2, attempt_count: 0, delivered_at: null });
    reply.resolve(undefined);
    await until(({ state, cycle }) => state === "DELIVERED" && cycle === 2);
    const [one, two] = receiver.requests.map(({ headers }) => headers);
    expect(receiver.requests).toHaveLength(2);
    expect(two?.["webhook-id"]).toBe(one?.["webhook-id"]);
    expect(await made.current.attempts(tenant, id)).toEqual([
      { ...first, resent: false, response_body: "thank you" },
      expect.objectContaining({
        cycle: 2,
        attempt: 1,
        status: 200,
        resent: true,
        response_body: "thank you",
      }),
    ]);
    // A second resend moves nothing that is not there.
    await resend();
    await until(({ state, cycle }) => state === "DELIVERED" && cycle === 3);
    const attempts = await made.current.attempts(tenant, id);
    expect(attempts.map(({ cycle, resent }) => [cycle, resent])).toEqual([
      [1, false],
      [2, true],
      [3, true],
    ]);
  });

  test("that is requested many times at once starts one cycle", async () => {
    const { id, receiver, tenant, until, resend } = await make([OK]);
    await until(delivered);
    const requests = Promise.withResolvers<undefined>();
    receiver.answer([{ ...OK, after: requests.promise }]);
    const asked = await Promise.allSettled(Array.from({ length: 8 }, resend));
    requests.resolve(undefined);
    expect(asked.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    await until(({ state, cycle }) => state === "DELIVERED" && cycle === 2);
    expect(await made.current.attempts(tenant, id)).toHaveLength(2);
    expect(receiver.requests).toHaveLength(2);
  });

  test("of a delivery that was cancelled during a request records that request's answer in its own cycle", async () => {
    let answer: () => void = () => undefined;
    const after = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { id, tenant, receiver, until, resend } = await make([{ ...OK, after }, OK]);
    await receiver.waitFor(1);
    await made.current.deliveries.cancel(tenant, id);
    await resend();
    await until(({ state, cycle }) => state === "DELIVERED" && cycle === 2);
    answer();
    const attempts = await eventually(async () => {
      const found = await made.current.attempts(tenant, id);
      return found.every(({ duration_ms: durationMs }) => durationMs !== null) && found.length === 2
        ? found
        : undefined;
    }, "the answer to the first request");
    expect(attempts.map(({ cycle, status, resent }) => [cycle, status, resent])).toEqual([
      [1, 200, false],
      [2, 200, true],
    ]);
    expect(await made.current.deliveries.find(tenant, id)).toMatchObject({ state: "DELIVERED", cycle: 2 });
    expect(receiver.requests).toHaveLength(2);
  });

  test("can be cancelled, and its retries continue like those of any cycle", async () => {
    const { until, receiver, resend, tenant, id } = await make([OK]);
    await until(delivered);
    receiver.answer([LATER]);
    await resend();
    await until(({ state, attempt_count: attemptCount }) => state === "RETRYING" && attemptCount === 1);
    await expect(resend()).rejects.toMatchObject({ code: "INVALID_STATE" });
    await made.current.deliveries.cancel(tenant, id);
    receiver.answer([OK]);
    expect(await resend()).toMatchObject({ cycle: 3 });
    await until(({ state, cycle }) => state === "DELIVERED" && cycle === 3);
  });

  test("is refused for dead letters, deleted endpoints and erased events; an expired letter is resent", async () => {
    const world = made.current;
    const { tenant, endpointId, id, until, resend } = await make([OK]);
    await until(delivered);
    const [dead = ""] = await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count: 1 });
    const [expired = ""] = await seedDeadLetters(world.sql, {
      tenantId: tenant,
      endpointId,
      count: 1,
      expiresInMs: -1_000,
    });
    const refused = { code: "INVALID_STATE" };
    await expect(world.deliveries.resend(tenant, dead, TEST_CALLER)).rejects.toMatchObject(refused);
    await world.deliveries.resend(tenant, expired, TEST_CALLER);
    await until(({ state, cycle }) => state === "DELIVERED" && cycle === 2, expired);
    const { event_id: eventId } = await world.deliveries.find(tenant, expired);
    await world.sql.query("UPDATE events SET data = NULL, content_erased_at = now() WHERE id = $1", [
      eventId,
    ]);
    await expect(world.deliveries.resend(tenant, expired, TEST_CALLER)).rejects.toMatchObject(refused);
    await world.sql.query("UPDATE endpoints SET state = 'DELETED' WHERE id = $1", [endpointId]);
    await expect(resend()).rejects.toMatchObject(refused);
    expect(await world.deliveries.find(tenant, id)).toMatchObject({ state: "DELIVERED", cycle: 1 });
    const other = await world.createTenant();
    await expect(world.deliveries.resend(other, id, TEST_CALLER)).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
  });
});

describe("a replay of an endpoint's deliveries", () => {
  test("attempts retries now, and counts what was delivered and what failed again", async () => {
    const world = made.current;
    const owner = await make([LATER], 12);
    const { ids, tenant, endpointId, receiver, until } = owner;
    await Promise.all(
      ids.map(async (id) => await until(({ attempt_count: attemptCount }) => attemptCount === 1, id)),
    );
    const other = await make([LATER]);
    await other.until(({ attempt_count: attemptCount }) => attemptCount === 1);
    const selection = { states: ["RETRYING"], filter: { endpointId } } as const;

    const failed = await replay(owner, selection);
    expect(failed).toMatchObject({ kind: "deliveries", total: 12, done: 12, skipped: 0, failed: 0 });
    const outcomes = async (job: ReplayJob) => (await world.replays.outcomes(tenant, job.id)).counts;
    await eventually(async () => (await outcomes(failed)).RETRYING === 12, "the attempts to fail");

    receiver.answer([OK]);
    const good = await replay(owner, selection);
    await eventually(async () => (await outcomes(good)).DELIVERED === 12, "the deliveries");
    expect(await outcomes(good)).toEqual({ DELIVERED: 12, RETRYING: 0, FAILED: 0, CANCELLED: 0, WAITING: 0 });
    const { rows: items } = await world.replays.items(tenant, good.id, {
      after: 0,
      limit: 100,
      outcomes: undefined,
      outcome: "DELIVERED",
    });
    expect(items.map(({ result }) => result)).toEqual(ids.map(() => "attempted"));
    // The attempts used their places in the schedule: no new cycle began.
    expect(await world.deliveries.find(tenant, ids[0] ?? "")).toMatchObject({ cycle: 1, attempt_count: 3 });
    expect(await other.until(() => true)).toMatchObject({ state: "RETRYING", attempt_count: 1 });
    const described = await world.temporal.workflow.getHandle(replayWorkflowId(good.id)).describe();
    expect(described.type).toBe("replayDeliveries");
  });

  test("sends delivered, cancelled and expired deliveries and dead letters again, each once", async () => {
    const world = made.current;
    const owner = await make([OK], 3);
    const { tenant, endpointId, ids, receiver, until } = owner;
    await Promise.all(ids.map(async (id) => await until(delivered, id)));
    const letters = await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count: 3 });
    const [dead = "", cancelled = "", expired = ""] = letters;
    await world.sql.query("UPDATE deliveries SET state = 'CANCELLED', expires_at = NULL WHERE id = $1", [
      cancelled,
    ]);
    await world.sql.query("UPDATE deliveries SET expires_at = now() - interval '1 minute' WHERE id = $1", [
      expired,
    ]);
    const all = ["DEAD_LETTERED", "RETRYING", "DELIVERED", "CANCELLED", "EXPIRED"] as const;
    const job = await replay(owner, { states: all, filter: { endpointId } });
    expect(job).toMatchObject({ total: 6, done: 6, skipped: 0, failed: 0 });
    await Promise.all(
      [...ids, ...letters].map(
        async (id) => await until(({ state, cycle }) => state === "DELIVERED" && cycle === 2, id),
      ),
    );
    expect(receiver.requests).toHaveLength(9);
    const marks = await Promise.all(
      [ids[0] ?? "", dead, cancelled, expired].map(
        async (id) => (await world.attempts(tenant, id)).at(-1)?.resent,
      ),
    );
    expect(marks).toEqual([true, false, true, true]);
    // A later cycle does not change what the job has come to.
    await world.deliveries.resend(tenant, dead, TEST_CALLER);
    expect((await world.replays.outcomes(tenant, job.id)).counts).toMatchObject({ DELIVERED: 6 });
  });
});
