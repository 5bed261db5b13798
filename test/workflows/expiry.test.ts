import { ApplicationFailure, WorkflowFailedError, WorkflowNotFoundError } from "@temporalio/client";
import { beforeAll, describe, expect, test } from "vitest";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import type { WorkerProcess } from "#processes/worker.ts";
import { DELIVERY_EXPIRED } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

// The dead-letter week is shortened to five seconds.
const made = useWorld({ retryWindowMs: 1_000, deadLetterMs: 5_000 });
let worker: WorkerProcess;
let receiver: Receiver;
/** Resolves when the first list has its workflow. */
const carried = Promise.withResolvers<undefined>();
/** A dead letter whose worker ended before it started a workflow. */
let uncarried: string;

beforeAll(async () => {
  const world = made.current;
  // A worker that starts claims once more when it listens. A member that fails before its list starts may leave it.
  receiver = await startReceiver({ script: [{ kind: "answer", status: 500, after: carried.promise }] });
  const tenant = await world.createTenant();
  const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
  await world.sql.query("UPDATE endpoints SET state = 'DISABLED' WHERE id = $1", [endpoint]);
  const { deliveries } = await world.publish(tenant);
  uncarried = deliveries[0]?.id ?? "";
  await world.sql.query("UPDATE deliveries SET carrier = 'bat_gone', claimed_at = now() WHERE id = $1", [
    uncarried,
  ]);
  return async () => await receiver.close();
});

/** Publishes to one failing endpoint while no worker runs, so that deliveries share lists; waits for the dead letters. */
async function makeDeadLetters(count: number): Promise<{ tenant: string; letters: Delivery[] }> {
  const world = made.current;
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, receiver.url);
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { deliveries } = await world.publish(tenant);
    ids.push(deliveries[0]?.id ?? "");
  }
  worker = await world.startWorker();
  await world.workflowOf(tenant, ids[0] ?? "");
  carried.resolve(undefined);
  const letters = await Promise.all(
    ids.map(async (id) => await world.untilDelivery(tenant, id, ({ state }) => state === "DEAD_LETTERED")),
  );
  return { tenant, letters };
}

async function storedState(id: string): Promise<unknown> {
  const { rows } = await made.current.sql.query<{ state: string }>(
    "SELECT state FROM deliveries WHERE id = $1",
    [id],
  );
  return rows[0]?.state;
}

async function failureOf(workflowId: string): Promise<ApplicationFailure> {
  const error: unknown = await made.current.temporal.workflow.result(workflowId).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(WorkflowFailedError);
  const { cause } = error as WorkflowFailedError;
  expect(cause).toBeInstanceOf(ApplicationFailure);
  return cause as ApplicationFailure;
}

describe("a dead letter whose week has ended", () => {
  test("is EXPIRED; its workflow fails as DELIVERY_EXPIRED and counts its members' results", async () => {
    const world = made.current;
    const { tenant, letters } = await makeDeadLetters(3);
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

  test("is set to EXPIRED even without a workflow", async () => {
    await eventually(async () => (await storedState(uncarried)) === "EXPIRED", "the sweep");
    const { rows } = await made.current.sql.query("SELECT carrier FROM deliveries WHERE id = $1", [
      uncarried,
    ]);
    expect(rows).toEqual([{ carrier: "bat_gone" }]);
    await worker.close();
  });

  test("is reported as EXPIRED even before a worker has updated its row", async () => {
    const world = made.current;
    const { tenant, letters } = await makeDeadLetters(1);
    const [letter] = letters;
    const id = letter?.id ?? "";
    await worker.close();
    await world.untilDelivery(tenant, id, ({ state }) => state === "EXPIRED");
    expect(Date.now()).toBeGreaterThanOrEqual(letter?.expires_at?.getTime() ?? Number.NaN);
    expect(await storedState(id)).toBe("DEAD_LETTERED");
    await expect(world.deliveries.replay(tenant, id, TEST_CALLER)).rejects.toMatchObject({
      code: "DLQ_ENTRY_EXPIRED",
    });
    const listed = await world.deliveries.deadLetters(tenant, { filter: {}, before: undefined, limit: 10 });
    expect(listed.rows).toEqual([]);
    // A late signal finds a workflow, but nothing to replay.
    await world.temporal.workflow.getHandle(letter?.workflow_id ?? "").signal("replay");
    worker = await world.startWorker();
    expect(await failureOf(letter?.workflow_id ?? "")).toMatchObject({
      type: DELIVERY_EXPIRED,
      details: [{ delivered: 0, replayed: 0, cancelled: 0, moved: 0, expired: 1 }],
    });
    expect(await world.deliveries.find(tenant, id)).toMatchObject({ state: "EXPIRED", cycle: 1 });
    expect(await storedState(id)).toBe("EXPIRED");
    await worker.close();
  });
});
