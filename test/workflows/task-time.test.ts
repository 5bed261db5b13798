/** A query to a worker that has just started leaves nothing in its memory that the history does not have. */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { statusQuery } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { NONDETERMINISM } from "../support/histories.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { startWorkerProcess, type WorkerProcessUnderTest } from "../support/worker-process.ts";
import { useWorld } from "../support/world.ts";

allowMinutes(3);

const made = useWorld({ retryWindowMs: 120_000 });
/** Before a query, and then a workflow task, leave a killed worker's queue. */
const STICKY_MS = 3_000;
let worker: WorkerProcessUnderTest;
let receiver: Receiver;

beforeAll(async () => {
  worker = await startWorkerProcess(made.current);
  receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
});

afterAll(async () => {
  await worker.stop("SIGKILL");
  await receiver.close();
});

/** Starts another worker, after a kill. @returns what the killed one wrote */
async function replaceWorker(): Promise<string> {
  await worker.stop("SIGKILL");
  const output = worker.output();
  worker = await startWorkerProcess(made.current);
  return output;
}

test("a workflow that is queried after its worker's end, with a timer that has fired, replays as before", async () => {
  const { current } = made;
  const tenant = await current.createTenant();
  await current.createEndpoint(tenant, receiver.url);
  const { deliveries } = await current.publish(tenant);
  const find = async () => await current.deliveries.find(tenant, deliveries[0]?.id ?? "");
  const {
    workflow_id: carrier,
    dueMs,
    attempt_count: attemptCount,
  } = await eventually(async () => {
    const row = await find();
    const at = row.next_attempt_at?.getTime() ?? 0;
    return at - Date.now() > STICKY_MS ? { ...row, dueMs: at } : undefined;
  }, "an attempt that is due in some seconds");
  await replaceWorker();
  const handle = current.temporal.workflow.getHandle(carrier ?? "");
  // The query leaves the old queue after the timer has fired, and before the workflow task does.
  await delay(dueMs - Date.now() - 500);
  await handle.query(statusQuery).catch(() => "it may be refused");
  await eventually(async () => (await find()).attempt_count > attemptCount, "the attempt");
  const outputs = [await replaceWorker()];
  await eventually(async () => (await handle.query(statusQuery)).open === 1, "an answer");
  outputs.push(await replaceWorker());
  expect(outputs.filter((output) => output.includes(NONDETERMINISM))).toEqual([]);
});
