/** What deliveries cost on Temporal Cloud: the figures of docs/temporal-cloud.md, from the histories of a local server. */
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DeliveryState } from "#domain/delivery.ts";
import { ATTEMPT_MAX, RETRY_WINDOW_MS } from "#domain/retry-schedule.ts";
import { createLogger } from "#observability/logger.ts";
import { CheckpointRequests } from "#temporal/checkpoint-requests.ts";
import { replaySignal, replayWorkflowId, verifyWorkflowId } from "#workflows/messages.ts";
import { type BillableActions, billableActions, totalOf } from "../support/billable-actions.ts";
import { certificateFiles, newRoot, serverPair } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { eventsOf, fetchRuns, lateFirstAttempts } from "../support/histories.ts";
import { allowMinutes } from "../support/limits.ts";
import { withoutPause } from "../support/pauses.ts";
import { type Behaviour, type Receiver, startReceiver } from "../support/receiver-server.ts";
import { registrationOf } from "../support/registration.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { testNamespace } from "../support/services.ts";
import { triggerSchedule } from "../support/temporal-cli.ts";
import { startTemporalProxy } from "../support/temporal-proxy.ts";
import { makeWorld, TEST_CALLER, type World, type WorldOptions } from "../support/world.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

allowMinutes(4);

const OK: Behaviour = { kind: "answer" };
const FAILURE: Behaviour = { kind: "answer", status: 500 };
const NONE: BillableActions = {
  starts: 0,
  activities: 0,
  localActivities: 0,
  timers: 0,
  searchAttributes: 0,
  signals: 0,
};

/** Actions by the first column of the page's table. */
let documented: ReadonlyMap<string, number>;

beforeAll(async () => {
  const page = await readFile(new URL("../../docs/temporal-cloud.md", import.meta.url), "utf8");
  documented = new Map(
    [...page.matchAll(/^\| ([^|]+?) \| (\d+) \|/gm)].map(([, what = "", count]) => [what, Number(count)]),
  );
});

/** Measures in a world of its own. A machine that stands still causes further heartbeats and starts. */
async function inWorld(options: WorldOptions, work: (world: World) => Promise<void>): Promise<void> {
  await withoutPause(async () => {
    const world = await makeWorld(options);
    try {
      await work(world);
    } finally {
      await world.close();
    }
  });
}

interface Delivered {
  readonly tenant: string;
  readonly ids: readonly string[];
}

const receivers: Receiver[] = [];

afterAll(async () => {
  await Promise.all(receivers.map(async (receiver) => await receiver.close()));
});

/** Publishes `count` events. @returns their deliveries */
async function publish(world: World, count: number, ...script: readonly Behaviour[]): Promise<Delivered> {
  const receiver = await startReceiver({ script });
  receivers.push(receiver);
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, receiver.url);
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    ids.push((await world.publish(tenant)).deliveries[0]?.id ?? "");
  }
  return { tenant, ids };
}

async function until(world: World, { tenant, ids }: Delivered, state: DeliveryState): Promise<void> {
  await Promise.all(ids.map(async (id) => await world.untilDelivery(tenant, id, (it) => it.state === state)));
}

/** Publishes one event to a worker that has settled. @returns its delivery once it is in `state` */
async function deliver(
  world: World,
  state: DeliveryState,
  ...script: readonly Behaviour[]
): Promise<{ readonly tenant: string; readonly id: string }> {
  await world.startWorker();
  const first = await publish(world, 1, OK);
  await world.workflowOf(first.tenant, first.ids[0] ?? "");
  const delivered = await publish(world, 1, ...script);
  await until(world, delivered, state);
  return { tenant: delivered.tenant, id: delivered.ids[0] ?? "" };
}

/** Counts the actions of a workflow that ends. Returns its events, too, for the message of a failure. */
async function actionsOf(
  world: World,
  workflowId: string,
): Promise<{ readonly actions: BillableActions; readonly events: string }> {
  // An expired delivery's workflow fails.
  await world.temporal.workflow
    .getHandle(workflowId)
    .result()
    .catch(() => undefined);
  const runs = await fetchRuns(world, workflowId);
  const { activities, ...actions } = billableActions(runs);
  // The page is about first attempts that are answered within a second.
  const late = runs.reduce((sum, { events }) => sum + lateFirstAttempts(events), 0);
  return { actions: { ...actions, activities: activities - late }, events: eventsOf(runs) };
}

/** @returns the number of actions */
async function expectActions(
  world: World,
  workflowId: string,
  expected: Partial<BillableActions>,
): Promise<number> {
  const { actions, events } = await actionsOf(world, workflowId);
  expect(actions, events).toEqual({ ...NONE, starts: 1, ...expected });
  return totalOf(actions);
}

describe("a delivery at the first attempt", () => {
  test("alone", async () => {
    await inWorld({ retryWindowMs: RETRY_WINDOW_MS }, async (world) => {
      const { tenant, id } = await deliver(world, "DELIVERED", OK);
      const { workflowId } = await world.workflowOf(tenant, id);
      const total = await expectActions(world, workflowId, { localActivities: 1 });
      expect(total).toBe(documented.get("one delivery alone, at the first attempt"));
    });
  });

  test("in a list of 64", async () => {
    await inWorld({ retryWindowMs: RETRY_WINDOW_MS }, async (world) => {
      // What waits when a worker starts shares a list.
      const delivered = await publish(world, 64, OK);
      await world.startWorker();
      await until(world, delivered, "DELIVERED");
      const { tenant, ids } = delivered;
      const workflows = await Promise.all(ids.map(async (id) => await world.workflowOf(tenant, id)));
      const [carrier = "", ...others] = new Set(workflows.map(({ workflowId }) => workflowId));
      expect(others).toEqual([]);
      const total = await expectActions(world, carrier, { localActivities: 1 });
      expect(total).toBe(documented.get("a list of 64 deliveries, all at the first attempt"));
    });
  });
});

// These mostly wait, so they wait together, each in a world of its own.
describe.concurrent("a delivery", () => {
  // With the real schedule, whose third retry follows after a quarter of a minute.
  test("with three retries", async () => {
    await inWorld({ retryWindowMs: RETRY_WINDOW_MS }, async (world) => {
      const { tenant, id } = await deliver(world, "DELIVERED", FAILURE, FAILURE, FAILURE, OK);
      const { workflowId } = await world.workflowOf(tenant, id);
      const total = await expectActions(world, workflowId, {
        localActivities: 1,
        activities: 3,
        timers: 3,
        searchAttributes: 1,
      });
      expect(total).toBe(documented.get("one delivery with three retries"));
    });
  });

  test("whose receiver asks to wait", async () => {
    await inWorld({ retryWindowMs: RETRY_WINDOW_MS }, async (world) => {
      const busy: Behaviour = { ...FAILURE, status: 503, headers: { "Retry-After": "12" } };
      const { tenant, id } = await deliver(world, "DELIVERED", busy, OK);
      const { workflowId } = await world.workflowOf(tenant, id);
      const total = await expectActions(world, workflowId, {
        localActivities: 1,
        activities: 1,
        timers: 1,
        searchAttributes: 1,
      });
      expect(JSON.stringify(await fetchRuns(world, workflowId))).toContain("core_patch");
      expect(total).toBe(documented.get("one delivery with a retry that `Retry-After` postpones"));
    });
  });

  test("that expires as a dead letter", async () => {
    await inWorld({ retryWindowMs: 10_000, deadLetterMs: 5_000 }, async (world) => {
      const { tenant, id } = await deliver(world, "EXPIRED", FAILURE);
      const { workflowId } = await world.workflowOf(tenant, id);
      const {
        actions: { timers, ...actions },
        events,
      } = await actionsOf(world, workflowId);
      // The waits, and the dead-letter week. This schedule is so short that the first waits are over at once.
      const waits = ATTEMPT_MAX - 1 + 1;
      expect(timers).toBeLessThanOrEqual(waits);
      expect(actions, events).toEqual({
        starts: 2,
        localActivities: 1,
        activities: ATTEMPT_MAX - 1 + 1,
        searchAttributes: 6,
        signals: 0,
      });
      expect(totalOf({ ...actions, timers: waits })).toBe(
        documented.get("a dead letter after 17 attempts that expires after its week"),
      );
    });
  });

  test("whose retry takes five seconds sends heartbeats", async () => {
    const files = certificateFiles();
    const root = await newRoot("Temporal CA");
    const proxy = await startTemporalProxy(await serverPair(root), () => undefined);
    await inWorld(
      {
        retryWindowMs: RETRY_WINDOW_MS,
        temporal: { address: proxy.address, namespace: await testNamespace() },
        environment: { TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.write("ca.pem", root.cert) },
      },
      async (world) => {
        const before = proxy.calls.length;
        await deliver(world, "DELIVERED", FAILURE, { ...OK, delayMs: 5_000 });
        const calls = proxy.calls.slice(before);
        const sent = calls.filter(({ method }) => method === "RecordActivityTaskHeartbeat").length;
        expect(sent).toBeGreaterThan(0);
        const most = documented.get("a retry whose receiver takes five seconds, in addition");
        expect(sent).toBeLessThanOrEqual(most ?? 0);
      },
    );
    proxy.close();
    files.remove();
  });
});

describe.concurrent("a replay", () => {
  const EXHAUSTED = Array.from({ length: ATTEMPT_MAX }, () => FAILURE);
  type Replay = (world: World, tenant: string, id: string) => Promise<unknown>;
  const WAYS: readonly (readonly [string, string, Replay])[] = [
    [
      "a signal",
      "the replay of a dead letter by a signal, delivered at the first attempt",
      async (world, tenant, id) => await (await world.workflowOf(tenant, id)).signal(replaySignal),
    ],
    [
      "the API",
      "the same by the API",
      async (world, tenant, id) => await world.deliveries.replay(tenant, id, TEST_CALLER),
    ],
  ];

  test.for(WAYS)("of a dead letter by %s", async ([, what, replay]) => {
    await inWorld({ retryWindowMs: 10_000 }, async (world) => {
      const { tenant, id } = await deliver(world, "DEAD_LETTERED", ...EXHAUSTED, OK);
      const { workflowId } = await world.workflowOf(tenant, id);
      await replay(world, tenant, id);
      await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
      const { actions: before } = await actionsOf(world, workflowId);
      // The endpoint is failing, so that its first attempts are no local activities.
      const total = await expectActions(world, (await world.workflowOf(tenant, id)).workflowId, {
        activities: 1,
      });
      const asked = before.signals + before.activities - (ATTEMPT_MAX - 1);
      expect(asked + total).toBe(documented.get(what));
    });
  });
});

// Not beside others: a page that takes longer than its second leaves nothing to wait for.
test("a replay job", async () => {
  await inWorld({}, async (world) => {
    await world.startWorker();
    const tenant = await world.createTenant();
    const { id: endpointId } = await world.createEndpoint(tenant, "http://127.0.0.1:9/never");
    const pages = 3;
    // At one a second, a page has one dead letter. These have no workflow to release them.
    await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count: pages });
    const job = await world.makeReplay(tenant, { selection: { filter: {} }, ratePerSecond: 1 });
    world.replays.kick(job);
    const workflowId = replayWorkflowId(job.id);
    await eventually(async () => (await world.replays.find(tenant, job.id)).state === "COMPLETED", job.id);
    const total = await expectActions(world, workflowId, { activities: pages, timers: pages - 1 });
    expect(total).toBe(pages * (documented.get("each page of a replay job") ?? 0));
  });
});

test("a verification, and the upkeep", async () => {
  await inWorld({}, async (world) => {
    await world.startWorker();
    const receiver = await startReceiver({ script: [OK] });
    const tenant = await world.createTenant();
    const { endpoint } = await world.endpoints.register(tenant, registrationOf(receiver.url), TEST_CALLER);
    await eventually(
      async () => (await world.endpoints.find(tenant, endpoint.id)).state === "ACTIVE",
      "the endpoint to be verified",
    );
    const verification = await expectActions(world, verifyWorkflowId(endpoint.id, 1), { localActivities: 1 });
    expect(verification).toBe(documented.get("the verification of an endpoint, at the first ping"));
    await receiver.close();

    const requests = new CheckpointRequests(world.temporal, machineTimers, createLogger({ level: "silent" }));
    requests.request(1);
    await eventually(
      async () => (await actionsOf(world, "signCheckpoint/1")).actions.activities > 0,
      "the checkpoint",
    );
    await requests.stop();
    const checkpoint = await expectActions(world, "signCheckpoint/1", { activities: 1 });
    expect(checkpoint).toBe(documented.get("the checkpoint after a revocation"));

    for (const scheduleId of ["purgeExpired", "rotateCredentials", "rotateSigningKeys", "signCheckpoint"]) {
      await triggerSchedule(world, scheduleId);
      const { workflow } = await eventually(
        async () =>
          (await world.temporal.schedule.getHandle(scheduleId).describe()).info.recentActions.at(-1)?.action,
        `a run of ${scheduleId}`,
      );
      const total = await expectActions(world, workflow.workflowId, { activities: 1 });
      // A schedule's own action counts twice.
      expect(2 + total).toBe(documented.get("one run of a schedule"));
    }
  });
});
