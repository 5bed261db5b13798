/**
 * The two promises of docs/guarantees.md about Temporal, under random operations of tenants and operators, and faults:
 * the dead letters of the API are the dead members of the open workflows that the documented view lists, and a signal
 * reaches what its query or id means, and nothing else.
 */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { setTenantHold } from "#database/repositories/tenants.ts";
import { statusQuery } from "#workflows/messages.ts";
import { allowMinutes } from "../support/limits.ts";
import { NONDETERMINISM } from "../support/histories.ts";
import { type Model, OPERATIONS, pick, publish, rowsOf, VIEW } from "../support/queue-operations.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { startWorkerProcess, type WorkerProcessUnderTest } from "../support/worker-process.ts";
import { useWorld } from "../support/world.ts";

allowMinutes(60);

const made = useWorld({ retryWindowMs: 1_000 });
/** The promise of docs/guarantees.md. */
const WITHIN_MS = 120_000;
const COUNT = 12;
const FIRST_SEED = Number(process.env["SIGNET_TEST_SEED"] ?? 1);
/** More of them: `SIGNET_TEST_SEEDS=200`, with `--maxConcurrency=15`. */
const SEED_COUNT = Number(process.env["SIGNET_TEST_SEEDS"] ?? 5);
const SEEDS = Array.from({ length: SEED_COUNT }, (_, index) => FIRST_SEED + index);
const FAILING = { script: [{ kind: "answer", status: 500 }] } as const;

let worker: Promise<WorkerProcessUnderTest>;
let killedAtMs = 0;
/** Tasks of workflows that did something else in a replay than before. */
const broken: string[] = [];

async function kill(running: WorkerProcessUnderTest): Promise<void> {
  await running.stop("SIGKILL");
  broken.push(
    ...running
      .output()
      .split("\n")
      .filter((line) => line.includes(NONDETERMINISM)),
  );
}

/** Seeds share the worker, so that the kill of one is a fault for all of them. They take turns. */
async function killWorker(): Promise<void> {
  worker = worker.then(async (running) => {
    killedAtMs = performance.now();
    await kill(running);
    return await startWorkerProcess(made.current);
  });
  await worker;
}

beforeAll(async () => {
  worker = startWorkerProcess(made.current);
  await worker;
});

afterAll(async () => {
  await kill(await worker);
  if (broken.length > 0) {
    throw new Error(`workflows were replayed otherwise:\n${broken.join("\n")}`);
  }
});

/** Dead letters of the API by workflow, and what the view lists: each `workflow delivery`. */
async function bothQueues(model: Model): Promise<readonly [api: string[], temporal: string[]]> {
  const rows = await rowsOf(model);
  const api = rows
    .filter(({ state }) => state === "DEAD_LETTERED")
    .map(({ id, workflow_id: carrier }) => `${carrier} ${id}`)
    .toSorted();
  const mine = new Set([...model.deliveries.map(({ id }) => id), ...model.lost]);
  const temporal: string[] = [];
  for await (const { workflowId } of made.current.temporal.workflow.list({ query: VIEW })) {
    const { members } = await made.current.temporal.workflow
      .getHandle(workflowId)
      .query(statusQuery)
      .catch(() => ({ members: [] }));
    temporal.push(
      ...members
        .filter(({ delivery_id: id, state }) => state === "DEAD_LETTERED" && mine.has(id))
        .map(({ delivery_id: id }) => `${workflowId} ${id}`),
    );
  }
  return [api, temporal.toSorted()];
}

/** Waits until nothing is under way and both queues are the same, but not longer than promised. */
async function expectTheQueue(model: Model): Promise<void> {
  const beganMs = performance.now();
  const look = async () => {
    const [api, temporal] = await bothQueues(model);
    const moving = (await rowsOf(model)).filter(({ state }) => state === "QUEUED" || state === "RETRYING");
    return { api, temporal, moving };
  };
  let seen = await look();
  while (
    performance.now() < Math.max(beganMs, killedAtMs) + WITHIN_MS &&
    (seen.moving.length > 0 || JSON.stringify(seen.api) !== JSON.stringify(seen.temporal))
  ) {
    await delay(500);
    seen = await look();
  }
  expect(seen, model.story.join("\n")).toMatchObject({ temporal: seen.api, moving: [] });
}

async function makeModel(receiver: Receiver): Promise<Model> {
  const { current } = made;
  const tenants = [await current.createTenant(), await current.createTenant()];
  const endpoints = [];
  for (const tenant of [...tenants, ...tenants]) {
    endpoints.push({ id: (await current.createEndpoint(tenant, receiver.url)).id, tenant });
  }
  return {
    world: current,
    receiver,
    killWorker,
    tenants,
    endpoints,
    deliveries: [],
    lost: new Set(),
    backup: undefined,
    takeBack: [],
    replays: new Map(),
    cancels: new Map(),
    story: [],
  };
}

test.concurrent.for(SEEDS)("holds under the operations of seed %i", async (seed, { onTestFinished }) => {
  const random = seededRandom(seed);
  const receiver = await startReceiver(FAILING);
  onTestFinished(async () => await receiver.close());
  const model = await makeModel(receiver);
  await Promise.all(model.tenants.flatMap((tenant) => [publish(model, tenant), publish(model, tenant)]));
  for (let count = 0; count < COUNT; count += 1) {
    const name = pick(random, Object.keys(OPERATIONS)) ?? "";
    const what = await OPERATIONS[name]?.(model, random);
    model.story.push(`${name}: ${what}`);
    await delay(random() * 1_500);
  }
  await Promise.all(model.tenants.map(async (tenant) => await setTenantHold(made.current.sql, tenant, null)));
  await Promise.all(model.takeBack.map(async (takeBack) => await takeBack()));
  receiver.answer(FAILING.script);
  await expectTheQueue(model);

  const rows = await rowsOf(model);
  for (const { id, cycle, state } of rows) {
    const replays = model.replays.get(id) ?? { meant: 0, done: 0 };
    const cancels = model.cancels.get(id) ?? { meant: 0, done: 0 };
    const story = `${id}\n${model.story.join("\n")}`;
    expect(cycle - 1, story).toBeLessThanOrEqual(replays.meant);
    expect(cycle - 1, story).toBeGreaterThanOrEqual(replays.done);
    expect(state === "CANCELLED" ? cancels.meant : 1, story).toBeGreaterThanOrEqual(1);
    expect(cancels.done > 0 ? state : "CANCELLED", story).toBe("CANCELLED");
  }
});
