import { ApplicationFailure, WorkflowFailedError, WorkflowNotFoundError } from "@temporalio/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import type { WorkerProcess } from "#processes/worker.ts";
import { DELIVERY_EXPIRED } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { TEST_CALLER, useWorld, type World } from "../support/world.ts";

// The dead-letter week is shortened to five seconds.
const OPTIONS = { retryWindowMs: 1_000, deadLetterMs: 5_000 };
const made = useWorld(OPTIONS);
const other = useWorld(OPTIONS);
const receivers: Receiver[] = [];
let worker: WorkerProcess;
/** A dead letter whose worker ended before it started a workflow. */
let uncarried: string;

async function addReceiver(after: Promise<undefined>): Promise<string> {
  const receiver = await startReceiver({ script: [{ kind: "answer", status: 500, after }] });
  receivers.push(receiver);
  return receiver.url;
}

beforeAll(async () => {
  const world = made.current;
  const tenant = await world.createTenant();
  const { id: endpoint } = await world.createEndpoint(tenant, await addReceiver(Promise.resolve(undefined)));
  await world.sql.query("UPDATE endpoints SET state = 'DISABLED' WHERE id = $1", [endpoint]);
  const { deliveries } = await world.publish(tenant);
  uncarried = deliveries[0]?.id ?? "";
  await world.sql.query("UPDATE deliveries SET carrier = 'bat_gone', claimed_at = now() WHERE id = $1", [
    uncarried,
  ]);
});

afterAll(async () => {
  await Promise.all(receivers.map(async (receiver) => await receiver.close()));
});

/** Publishes to one failing endpoint while no worker runs, so that deliveries share lists; waits for the dead letters. */
async function makeDeadLetters(
  world: World,
  count: number,
): Promise<{ tenant: string; letters: Delivery[]; started: WorkerProcess }> {
  /** Resolves when the list has its workflow. */
  const carried = Promise.withResolvers<undefined>();
  const tenant = await world.createTenant();
  // A worker that starts claims once more when it listens. A member that fails before its list starts may leave it.
  await world.createEndpoint(tenant, await addReceiver(carried.promise));
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { deliveries } = await world.publish(tenant);
    ids.push(deliveries[0]?.id ?? "");
  }
  const started = await world.startWorker();
  await world.workflowOf(tenant, ids[0] ?? "");
  carried.resolve(undefined);
  const letters = await Promise.all(
    ids.map(async (id) => await world.untilDelivery(tenant, id, ({ state }) => state === "DEAD_LETTERED")),
  );
  return { tenant, letters, started };
}

async function storedState(id: string, world = made.current): Promise<unknown> {
  const { rows } = await world.sql.query<{ state: string }>("SELECT state FROM deliveries WHERE id = $1", [
    id,
  ]);
  return rows[0]?.state;
}

async function failureOf(workflowId: string, world = made.current): Promise<ApplicationFailure> {
  const error: unknown = await world.temporal.workflow.result(workflowId).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(WorkflowFailedError);
  const { cause } = error as WorkflowFailedError;
  expect(cause).toBeInstanceOf(ApplicationFailure);
  return cause as ApplicationFailure;
}

describe("a dead letter whose week has ended", () => {
  test.concurrent("is EXPIRED; its workflow fails as DELIVERY_EXPIRED and counts its members' results", async () => {
    const world = made.current;
    const { tenant, letters, started } = await makeDeadLetters(world, 3);
    worker = started;
    const [one, two, three] = letters.map(({ id }) => id);
    const carriers = [...new Set(letters.map((letter) => letter.workflow_id ?? ""))];
    expect(carriers).toHaveLength(1);
    await world.deliveries.replay(tenant, one ?? "", TEST_CALLER);
    const failure = await failureOf(carriers[0] ?? "");
    expect(failure.type).toBe(DELIVERY_EXPIRED);
    expect(failure.nonRetryable).toBe(true);
    expect(failure.details).toEqual([{ delivered: 0, replayed: 0, cancelled: 0, moved: 1, expired: 2 }]);
    for (const id of [two ?? "", three ?? ""]) {
      expect(await storedState(id)).toBe("EXPIRED");
      await expect(world.deliveries.replay(tenant, id, TEST_CALLER)).rejects.toMatchObject({
        code: "DLQ_ENTRY_EXPIRED",
      });
      await expect(world.deliveries.deadLetter(tenant, id)).rejects.toMatchObject({
        code: "DLQ_ENTRY_EXPIRED",
      });
    }
    const signal = world.temporal.workflow.getHandle(carriers.at(-1) ?? "").signal("replay");
    await expect(signal).rejects.toBeInstanceOf(WorkflowNotFoundError);
  });

  test.concurrent("is reported as EXPIRED even before a worker has updated its row", async () => {
    const world = other.current;
    const { tenant, letters, started } = await makeDeadLetters(world, 1);
    const [letter] = letters;
    const id = letter?.id ?? "";
    await started.close();
    await world.untilDelivery(tenant, id, ({ state }) => state === "EXPIRED");
    expect(Date.now()).toBeGreaterThanOrEqual(letter?.expires_at?.getTime() ?? Number.NaN);
    expect(await storedState(id, world)).toBe("DEAD_LETTERED");
    await expect(world.deliveries.replay(tenant, id, TEST_CALLER)).rejects.toMatchObject({
      code: "DLQ_ENTRY_EXPIRED",
    });
    const listed = await world.deliveries.deadLetters(tenant, { filter: {}, before: undefined, limit: 10 });
    expect(listed.rows).toEqual([]);
    // A late signal finds a workflow, but nothing to replay.
    await world.temporal.workflow.getHandle(letter?.workflow_id ?? "").signal("replay");
    const next = await world.startWorker();
    expect(await failureOf(letter?.workflow_id ?? "", world)).toMatchObject({
      type: DELIVERY_EXPIRED,
      details: [{ delivered: 0, replayed: 0, cancelled: 0, moved: 0, expired: 1 }],
    });
    expect(await world.deliveries.find(tenant, id)).toMatchObject({ state: "EXPIRED", cycle: 1 });
    expect(await storedState(id, world)).toBe("EXPIRED");
    await next.close();
  });

  test("is set to EXPIRED even without a workflow", async () => {
    await eventually(async () => (await storedState(uncarried)) === "EXPIRED", "the sweep");
    const { rows } = await made.current.sql.query("SELECT carrier FROM deliveries WHERE id = $1", [
      uncarried,
    ]);
    expect(rows).toEqual([{ carrier: "bat_gone" }]);
    await worker.close();
  });
});
