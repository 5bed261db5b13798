import { beforeAll, describe, expect, test } from "vitest";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { failedTasks, fetchRuns } from "../support/histories.ts";
import {
  type Behaviour,
  type ReceivedRequest,
  type Receiver,
  startReceiver,
} from "../support/receiver-server.ts";
import { useWorld } from "../support/world.ts";

// These tests need lists of many, so they run with the largest size only.
// Deliveries that wait when the worker starts share a list.
const made = useWorld({ retryWindowMs: 4_000 });
const OK: Behaviour = { kind: "answer" };
const FAILURE: Behaviour = { kind: "answer", status: 500 };

interface Group {
  readonly tenant: string;
  readonly endpoint: string;
  readonly receiver: Receiver;
  readonly ids: readonly string[];
}

/** Publishes `count` deliveries of one tenant to one endpoint. */
async function publishGroup(count: number, of: (request: ReceivedRequest) => Behaviour): Promise<Group> {
  const world = made.current;
  const receiver = await startReceiver({ script: of });
  const tenant = await world.createTenant();
  const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const { deliveries } = await world.publish(tenant, { index });
    ids.push(deliveries[0]?.id ?? "");
  }
  return { tenant, endpoint, receiver, ids };
}

async function until({ tenant, ids }: Group, wanted: (delivery: Delivery) => boolean): Promise<Delivery[]> {
  return await Promise.all(ids.map(async (id) => await made.current.untilDelivery(tenant, id, wanted)));
}

let healthy: Group;
let mended: Group;
let broken: Group;

beforeAll(async () => {
  healthy = await publishGroup(10, () => OK);
  mended = await publishGroup(10, ({ headers }) => (headers["x-service-attempt"] === "1" ? FAILURE : OK));
  broken = await publishGroup(12, () => FAILURE);
  await made.current.startWorker();
  return async () =>
    await Promise.all([healthy, mended, broken].map(async ({ receiver }) => await receiver.close()));
});

const carriersOf = (deliveries: readonly Delivery[]): string[] => [
  ...new Set(deliveries.map(({ workflow_id: carrier }) => carrier ?? "")),
];

async function attributesOf(carrier: string): Promise<Record<string, unknown>> {
  const { typedSearchAttributes } = await made.current.temporal.workflow.getHandle(carrier).describe();
  return Object.fromEntries(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]));
}

describe("deliveries that wait together", () => {
  test("go together in one workflow, each recorded as its own", async () => {
    const delivered = await until(healthy, ({ state }) => state === "DELIVERED");
    const [carrier, ...others] = carriersOf(delivered);
    expect(others).toEqual([]);
    expect(carrier).toMatch(/^bat_/);
    expect(healthy.receiver.requests).toHaveLength(10);
    const workflow = await made.current.workflowOf(healthy.tenant, delivered[0]?.id ?? "");
    expect(await workflow.result()).toEqual({
      delivered: 10,
      replayed: 0,
      cancelled: 0,
      moved: 22,
      expired: 0,
    });
    const found = await attributesOf(carrier ?? "");
    expect(found["SignetTenant"]).toBeUndefined();
    expect(found["SignetDelivery"]).toHaveLength(32);
  });

  test("move to a workflow of their own endpoint when their first attempt fails, and continue there", async () => {
    const first = carriersOf(await until(healthy, () => true))[0];
    const delivered = await until(mended, ({ state }) => state === "DELIVERED");
    for (const delivery of delivered) {
      expect(delivery).toMatchObject({ attempt_count: 2, cycle: 1 });
      expect(delivery.workflow_id).not.toBe(first);
    }
    expect(mended.receiver.requests).toHaveLength(20);
    for (const carrier of carriersOf(delivered)) {
      const found = await attributesOf(carrier);
      expect(found).toMatchObject({ SignetTenant: [mended.tenant], SignetEndpoint: [mended.endpoint] });
    }
  });

  test("make exactly 17 attempts each, whichever workflow carries them", async () => {
    const dead = await until(broken, ({ state }) => state === "DEAD_LETTERED");
    for (const { id, attempt_count: attemptCount, cycle } of dead) {
      expect({ attemptCount, cycle }).toEqual({ attemptCount: 17, cycle: 1 });
      const attempts = await made.current.attempts(broken.tenant, id);
      expect(attempts.map(({ attempt }) => attempt)).toEqual(
        Array.from({ length: 17 }, (_, index) => index + 1),
      );
    }
    expect(broken.receiver.requests).toHaveLength(12 * 17);
  });
});

describe("a workflow that carries many", () => {
  test("applies a signal to the members it names, or to all if it names none", async () => {
    const world = made.current;
    const dead = await until(broken, ({ state }) => state === "DEAD_LETTERED");
    const carrier = largestOf(dead);
    const members = dead.filter((delivery) => delivery.workflow_id === carrier).map(({ id }) => id);
    const [replayed = "", cancelled = "", ...rest] = members;
    expect(rest.length).toBeGreaterThan(0);
    const handle = world.temporal.workflow.getHandle(carrier);
    broken.receiver.answer([OK]);
    await handle.signal("replay", { delivery_ids: [replayed, "dlv_of_another"], by: "operator" });
    await world.untilDelivery(broken.tenant, replayed, ({ state }) => state === "DELIVERED");
    await handle.signal("cancel", { delivery_ids: [cancelled] });
    await world.untilDelivery(broken.tenant, cancelled, ({ state }) => state === "CANCELLED");
    for (const id of rest) {
      expect(await world.deliveries.find(broken.tenant, id)).toMatchObject({
        state: "DEAD_LETTERED",
        workflow_id: carrier,
      });
    }
    await handle.signal("replay");
    for (const id of rest) {
      await world.untilDelivery(
        broken.tenant,
        id,
        ({ state, cycle }) => state === "DELIVERED" && cycle === 2,
      );
    }
    expect(await handle.result()).toMatchObject({ replayed: 1 + rest.length, cancelled: 1, moved: 0 });
    const runs = await fetchRuns(world, carrier);
    for (const { events } of runs) {
      expect(events.length).toBeLessThanOrEqual(200);
      expect(failedTasks(events)).toEqual([]);
    }
  });

  function largestOf(deliveries: readonly Delivery[]): string {
    const size = (carrier: string): number =>
      deliveries.filter((each) => each.workflow_id === carrier).length;
    return carriersOf(deliveries).toSorted((a, b) => size(b) - size(a))[0] ?? "";
  }
});

describe("a list whose workflow was started without a member", () => {
  test("returns it to the outbox, and another workflow carries it", async () => {
    const world = made.current;
    const group = await publishGroup(1, () => OK);
    const [known] = await until(group, ({ state }) => state === "DELIVERED");
    await world.workflowOf(group.tenant, group.ids[0] ?? "");
    // Nothing claims for a held tenant, so the test can claim for the started list.
    await world.sql.query("UPDATE tenants SET held_at = now() WHERE id = $1", [group.tenant]);
    const { deliveries } = await world.publish(group.tenant);
    const ids = [deliveries[0]?.id ?? ""];
    await world.sql.query(
      "UPDATE deliveries SET carrier = $2, claimed_at = now() - interval '20 seconds' WHERE id = ANY ($1)",
      [ids, known?.workflow_id],
    );
    await world.sql.query("UPDATE tenants SET held_at = NULL WHERE id = $1", [group.tenant]);
    const [late] = await until({ ...group, ids }, ({ state }) => state === "DELIVERED");
    expect(late?.workflow_id).not.toBe(known?.workflow_id);
    expect(group.receiver.requests).toHaveLength(2);
    await group.receiver.close();
  });
});
