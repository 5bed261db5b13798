/**
 * The two promises of docs/guarantees.md about Temporal, under random operations of tenants and operators:
 * the dead letters of the API are the dead members of the open workflows that the documented view lists, and a signal
 * reaches what its query or id means, and nothing else.
 */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { setTenantHold } from "../../src/database/repositories/tenants.ts";
import type { Delivery } from "../../src/database/repositories/webhooks/deliveries.ts";
import { cancelUpdate, type MemberAnswer, replayUpdate, statusQuery } from "../../workflows/messages.ts";
import { allowMinutes } from "../support/limits.ts";
import { cases } from "../support/properties.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

allowMinutes(60);

const made = useWorld({ retryWindowMs: 1_000 });
/** The promise of docs/guarantees.md. */
const WITHIN_MS = 120_000;
const OPERATIONS = 12;
const FIRST_SEED = Number(process.env["SIGNET_TEST_SEED"] ?? 1);
const SEEDS = Array.from({ length: cases(2).numRuns }, (_, index) => FIRST_SEED + index);
/** docs/temporal.md, Find. */
const VIEW = 'SignetDead > 0 AND ExecutionStatus="Running"';

let receiver: Receiver;

beforeAll(async () => {
  await made.current.startWorker();
  receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
});

afterAll(async () => await receiver.close());

/** What a run did, and what that allows. */
interface Model {
  readonly tenants: readonly string[];
  readonly endpoints: readonly { readonly id: string; readonly tenant: string }[];
  readonly deliveries: { readonly id: string; readonly tenant: string; readonly endpoint: string }[];
  /** How often a delivery was meant by a replay, and was answered to be replayed. */
  readonly replays: Map<string, { meant: number; done: number }>;
  readonly cancels: Map<string, { meant: number; done: number }>;
  readonly story: string[];
}

function mean(counts: Model["replays"], ids: readonly string[], changed: readonly string[] = []): void {
  for (const id of ids) {
    const count = counts.get(id) ?? { meant: 0, done: 0 };
    counts.set(id, { meant: count.meant + 1, done: count.done + Number(changed.includes(id)) });
  }
}

type Random = () => number;

function pick<T>(random: Random, items: readonly T[]): T | undefined {
  return items[Math.floor(random() * items.length)];
}

async function openCarriers(model: Model, query: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const { workflowId } of made.current.temporal.workflow.list({ query })) {
    ids.push(workflowId);
  }
  const mine = new Set((await rowsOf(model)).map(({ carrier }) => carrier));
  return ids.filter((id) => mine.has(id)).toSorted();
}

async function rowsOf({ deliveries }: Model): Promise<Delivery[]> {
  return await Promise.all(
    deliveries.map(async ({ id, tenant }) => await made.current.deliveries.find(tenant, id)),
  );
}

/** Publishes to all endpoints of a tenant. */
async function publish(model: Model, tenant: string): Promise<void> {
  const { deliveries } = await made.current.publish(tenant);
  model.deliveries.push(...deliveries.map(({ id, endpointId }) => ({ id, tenant, endpoint: endpointId })));
}

/** Members of a workflow at this moment. */
async function carriedBy(carrier: string): Promise<string[]> {
  const { members } = await made.current.temporal.workflow.getHandle(carrier).query(statusQuery);
  return members.map(({ delivery_id: id }) => id);
}

/** Things that go wrong, or are requested, with what they mean for the model. */
const OPERATIONS_BY_NAME: Readonly<Record<string, (model: Model, random: Random) => Promise<string>>> = {
  publish: async (model, random) => {
    const tenant = pick(random, model.tenants) ?? "";
    await publish(model, tenant);
    return tenant;
  },
  disable: async (model, random) => {
    const { id = "", tenant = "" } = pick(random, model.endpoints) ?? {};
    await made.current.endpoints.disable(tenant, id, TEST_CALLER).catch(refused);
    await publish(model, tenant);
    return id;
  },
  enable: async (model, random) => {
    const { id = "", tenant = "" } = pick(random, model.endpoints) ?? {};
    await made.current.sql.query(
      "UPDATE endpoints SET state = 'ACTIVE', disabled_reason = NULL WHERE id = $1 AND state = 'DISABLED'",
      [id],
    );
    return `${tenant} ${id}`;
  },
  hold: async (model, random) => {
    const tenant = pick(random, model.tenants) ?? "";
    await setTenantHold(made.current.sql, tenant, random() < 0.5 ? new Date() : null);
    return tenant;
  },
  terminate: async (model, random) =>
    await withCarrier(model, random, async (carrier) => {
      await made.current.temporal.workflow.getHandle(carrier).terminate("by hand");
    }),
  delete: async (model, random) =>
    await withCarrier(model, random, async (workflowId) => {
      const { temporal } = made.current;
      await temporal.workflowService.deleteWorkflowExecution({
        namespace: temporal.options.namespace,
        workflowExecution: { workflowId },
      });
    }),
  reset: async (model, random) =>
    await withCarrier(model, random, async (workflowId) => {
      const { temporal } = made.current;
      await temporal.workflowService.resetWorkflowExecution({
        namespace: temporal.options.namespace,
        workflowExecution: { workflowId },
        reason: "by hand",
        requestId: `reset ${random()}`,
        // The first workflow task.
        workflowTaskFinishEventId: 4 as never,
      });
    }),
  "request cancellation": async (model, random) =>
    await withCarrier(model, random, async (carrier) => {
      mean(model.cancels, await carriedBy(carrier));
      await made.current.temporal.workflow.getHandle(carrier).cancel();
    }),
  "signal a carrier": async (model, random) =>
    await withCarrier(model, random, async (carrier) => {
      mean(model.replays, await carriedBy(carrier));
      await made.current.temporal.workflow.getHandle(carrier).signal("replay", { by: "ada" });
    }),
  "signal an endpoint": async (model, random) => {
    const { id = "" } = pick(random, model.endpoints) ?? {};
    mean(
      model.replays,
      model.deliveries.filter(({ endpoint }) => endpoint === id).map((delivery) => delivery.id),
    );
    for (const carrier of await openCarriers(model, `${VIEW} AND SignetEndpoint="${id}"`)) {
      await made.current.temporal.workflow.getHandle(carrier).signal("replay").catch(refused);
    }
    return id;
  },
  "signal nonsense": async (model, random) =>
    await withCarrier(model, random, async (carrier) => {
      const handle = made.current.temporal.workflow.getHandle(carrier);
      await handle.signal("cancel", { delivery_id: model.deliveries[0]?.id });
      await handle.signal("cancel", { delivery_ids: [] });
      await handle.signal("replayAll");
    }),
  "update one": async (model, random) => {
    const { id = "", tenant = "" } = pick(random, model.deliveries) ?? {};
    const { carrier } = await made.current.deliveries.find(tenant, id);
    const [update, counts] = random() < 0.3 ? [cancelUpdate, model.cancels] : [replayUpdate, model.replays];
    const answer = await made.current.temporal.workflow
      .getHandle(carrier ?? "none")
      .executeUpdate(update, { args: [{ delivery_ids: [id], by: "ada" }] })
      .catch((error: unknown): MemberAnswer => {
        refused(error);
        return { changed: [], refused: [] };
      });
    mean(counts, [id], answer.changed);
    return `${update.name} ${id}: ${JSON.stringify(answer)}`;
  },
  "replay by API": async (model, random) => {
    const { id = "", tenant = "" } = pick(random, model.deliveries) ?? {};
    mean(model.replays, [id]);
    await made.current.deliveries.replay(tenant, id, TEST_CALLER).catch(refused);
    return id;
  },
};

/** Operations may be refused: the workflow has ended, the endpoint is disabled already. */
function refused(error: unknown): void {
  expect((error as Error).name).toMatch(
    /NotFound|ServiceError|Refused|Conflict|Failed|Invalid|SignetError|Disabled|QueryRejected/,
  );
}

async function withCarrier(
  model: Model,
  random: Random,
  work: (carrier: string) => Promise<void>,
): Promise<string> {
  const carrier = pick(random, await openCarriers(model, 'ExecutionStatus="Running"'));
  if (carrier === undefined) {
    return "nothing is open";
  }
  await work(carrier).catch(refused);
  return carrier;
}

/** Dead letters of the API by workflow, and what the view lists: each `workflow delivery`. */
async function bothQueues(model: Model): Promise<readonly [api: string[], temporal: string[]]> {
  const rows = await rowsOf(model);
  const api = rows
    .filter(({ state }) => state === "DEAD_LETTERED")
    .map(({ id, carrier }) => `${carrier} ${id}`)
    .toSorted();
  const mine = new Set(model.deliveries.map(({ id }) => id));
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
  const deadline = performance.now() + WITHIN_MS;
  const look = async () => {
    const [api, temporal] = await bothQueues(model);
    const moving = (await rowsOf(model)).filter(({ state }) => state === "QUEUED" || state === "RETRYING");
    return { api, temporal, moving };
  };
  let seen = await look();
  while (
    performance.now() < deadline &&
    (seen.moving.length > 0 || JSON.stringify(seen.api) !== JSON.stringify(seen.temporal))
  ) {
    await delay(500);
    seen = await look();
  }
  expect(seen, model.story.join("\n")).toMatchObject({ temporal: seen.api, moving: [] });
}

async function makeModel(): Promise<Model> {
  const { current } = made;
  const tenants = [await current.createTenant(), await current.createTenant()];
  const endpoints = [];
  for (const tenant of [...tenants, ...tenants]) {
    endpoints.push({ id: (await current.createEndpoint(tenant, receiver.url)).id, tenant });
  }
  return { tenants, endpoints, deliveries: [], replays: new Map(), cancels: new Map(), story: [] };
}

test.concurrent.each(SEEDS)("holds under the operations of seed %i", async (seed) => {
  const random = seededRandom(seed);
  const model = await makeModel();
  await Promise.all(model.tenants.flatMap((tenant) => [publish(model, tenant), publish(model, tenant)]));
  for (let count = 0; count < OPERATIONS; count += 1) {
    const name = pick(random, Object.keys(OPERATIONS_BY_NAME)) ?? "";
    const what = await OPERATIONS_BY_NAME[name]?.(model, random);
    model.story.push(`${name}: ${what}`);
    await delay(random() * 1_500);
  }
  await Promise.all(model.tenants.map(async (tenant) => await setTenantHold(made.current.sql, tenant, null)));
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
