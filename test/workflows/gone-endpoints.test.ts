import { beforeAll, describe, expect, test } from "vitest";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { VIEWS } from "#temporal/views.ts";
import { replayUpdate, SEARCH_ATTRIBUTES } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { type Behaviour, type Receiver, startReceiver } from "../support/receiver-server.ts";
import { temporalCli } from "../support/temporal-cli.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

/** Dead letters that follow another one of their endpoint share a workflow after 30 seconds. */
const PATIENCE_MS = 60_000;

const made = useWorld({ retryWindowMs: 20_000 });
const FAILURE: Behaviour = { kind: "answer", status: 500 };

beforeAll(async () => {
  await made.current.startWorker();
});

interface Published {
  readonly receiver: Receiver;
  readonly tenant: string;
  readonly endpoint: string;
  readonly id: string;
  /** The workflow that carries it after the failure. */
  readonly carrier: string;
  readonly until: (...states: readonly Delivery["state"][]) => Promise<Delivery>;
  readonly setEndpoint: (state: "ACTIVE" | "DISABLED") => Promise<void>;
}

/** Publishes a delivery that has failed and waits for its next attempt. */
async function publishFailing(): Promise<Published> {
  const world = made.current;
  const receiver = await startReceiver({ script: [FAILURE] });
  const tenant = await world.createTenant();
  const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
  const { deliveries } = await world.publish(tenant);
  const id = deliveries[0]?.id ?? "";
  const until: Published["until"] = async (...states) =>
    await world.untilDelivery(tenant, id, ({ state }) => states.includes(state));
  // A delivery in a list leaves it when it fails.
  const { workflow_id: carrier } = await world.untilDelivery(
    tenant,
    id,
    (delivery) => delivery.state === "RETRYING" && delivery.workflow_id !== null,
  );
  return {
    receiver,
    tenant,
    endpoint,
    id,
    carrier: carrier ?? "",
    until,
    setEndpoint: async (state) => {
      await world.sql.query("UPDATE endpoints SET state = $2 WHERE id = $1", [endpoint, state]);
    },
  };
}

/** Checks that all requests are on record and nothing more is sent. */
async function expectNoMore({ receiver, tenant, id }: Published): Promise<void> {
  expect(receiver.requests).toHaveLength((await made.current.attempts(tenant, id)).length);
}

describe.concurrent("a deleted endpoint", () => {
  test("gets none of its waiting deliveries: they are cancelled, and their workflows close", async () => {
    const published = await publishFailing();
    await made.current.endpoints.remove(published.tenant, published.endpoint, TEST_CALLER);
    expect(await published.until("CANCELLED")).toMatchObject({ next_attempt_at: null, expires_at: null });
    const result = await made.current.temporal.workflow.result(published.carrier);
    expect(result).toMatchObject({ moved: 1, delivered: 0, expired: 0 });
    await expectNoMore(published);
    await published.receiver.close();
  });

  test("leaves its dead letters in the queue: neither a request nor a signal replays them", async () => {
    const { deliveries, endpoints, temporal } = made.current;
    const published = await publishFailing();
    const { tenant, id, receiver } = published;
    await published.setEndpoint("DISABLED");
    const letter = await published.until("DEAD_LETTERED");
    await endpoints.remove(tenant, published.endpoint, TEST_CALLER);
    receiver.answer([{ kind: "answer" }]);
    await expect(deliveries.replay(tenant, id, TEST_CALLER)).rejects.toMatchObject({
      code: "INVALID_STATE",
      message: expect.stringContaining("endpoint is deleted") as string,
    });
    expect(await deliveries.find(tenant, id)).toEqual(letter);
    const carrier = temporal.workflow.getHandle(letter.workflow_id ?? "");
    await carrier.signal("replay");
    // Signals take effect in order: the second cannot find what the first has replayed.
    await carrier.signal("cancel");
    expect(await carrier.result()).toMatchObject({ replayed: 0, cancelled: 1 });
    expect(await deliveries.find(tenant, id)).toMatchObject({ state: "CANCELLED", cycle: 1 });
    await expectNoMore(published);
    await receiver.close();
  });
});

describe.concurrent("a disabled endpoint", () => {
  test("gets none of its waiting deliveries: they are dead letters, whose workflows wait for a replay", async () => {
    const published = await publishFailing();
    const { tenant, id, carrier, receiver } = published;
    await published.setEndpoint("DISABLED");
    const parked = await published.until("DEAD_LETTERED");
    expect(parked).toMatchObject({
      reason: "endpoint_disabled",
      workflow_id: carrier,
      cycle: 1,
      next_attempt_at: null,
    });
    expect(parked.attempt_count).toBe((await made.current.attempts(tenant, id)).length);
    expect(parked.attempt_count).toBeLessThan(17);
    expect(parked.expires_at?.getTime()).toBeGreaterThan(Date.now());
    expect((await made.current.temporal.workflow.getHandle(carrier).describe()).status.name).toBe("RUNNING");
    await expectNoMore(published);

    await published.setEndpoint("ACTIVE");
    receiver.answer([{ kind: "answer" }]);
    await made.current.temporal.workflow.getHandle(carrier).signal("replay");
    const delivered = await published.until("DELIVERED");
    expect(delivered).toMatchObject({ cycle: 2, attempt_count: 1, reason: null });
    expect(delivered.workflow_id).toMatch(/^bat_/);
    expect(await made.current.temporal.workflow.result(carrier)).toMatchObject({ replayed: 1 });
    await receiver.close();
  });

  test("gets no new event: dead letters at once, which get a workflow of their own within seconds", async () => {
    const world = made.current;
    const receiver = await startReceiver();
    const tenant = await world.createTenant();
    const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
    const setEndpoint = async (state: string): Promise<unknown> =>
      await world.sql.query("UPDATE endpoints SET state = $2 WHERE id = $1", [endpoint, state]);
    await setEndpoint("DISABLED");
    const { event, deliveries } = await world.publish(tenant);
    expect(event.deliveries).toBe(1);
    const id = deliveries[0]?.id ?? "";
    expect(deliveries).toMatchObject([
      { state: "DEAD_LETTERED", reason: "endpoint_disabled", attempt_count: 0 },
    ]);
    // One alone is found by its own id.
    await world.untilDelivery(tenant, id, ({ workflow_id: carrier }) => carrier === id);
    const { typedSearchAttributes, type } = await (await world.workflowOf(tenant, id)).describe();
    expect(type).toBe("deadLetter");
    expect(
      Object.fromEntries(
        typedSearchAttributes
          .getAll()
          .filter(({ key }) => key.name.startsWith("Signet"))
          .map(({ key, value }) => [key.name, value]),
      ),
    ).toEqual({
      SignetTenant: [tenant],
      SignetEndpoint: [endpoint],
      SignetDelivery: [id],
      SignetState: "DEAD_LETTERED",
      SignetOpen: 1,
      SignetDead: 1,
      SignetExpires: deliveries[0]?.expires_at,
    });

    // Replayed too early, by request or in Temporal, it stays as it is.
    await expect(world.deliveries.replay(tenant, id, TEST_CALLER)).rejects.toMatchObject({
      code: "INVALID_STATE",
    });
    const workflow = await world.workflowOf(tenant, id);
    expect(await workflow.executeUpdate(replayUpdate, { args: [{}] })).toEqual({
      changed: [],
      refused: [{ id, reason: "endpoint_disabled" }],
    });
    const again = await world.deliveries.find(tenant, id);
    expect(again).toMatchObject({ state: "DEAD_LETTERED", cycle: 1, workflow_id: workflow.workflowId });

    await setEndpoint("ACTIVE");
    await world.deliveries.replay(tenant, id, TEST_CALLER);
    const delivered = await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered).toMatchObject({ cycle: 2, attempt_count: 1 });
    expect(delivered.workflow_id).not.toBe(again.workflow_id);
    expect(receiver.requests).toHaveLength(1);
    await receiver.close();
  });

  test("gets what was published to it by the documented command for an endpoint, once it is enabled", async () => {
    const world = made.current;
    const receiver = await startReceiver();
    const tenant = await world.createTenant();
    const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
    await world.endpoints.disable(tenant, endpoint, TEST_CALLER);
    const published = [await world.publish(tenant), await world.publish(tenant), await world.publish(tenant)];
    const ids = published.map(({ deliveries }) => deliveries[0]?.id ?? "");
    const query = `${VIEWS.deadLetters.query} AND SignetEndpoint="${endpoint}"`;
    await eventually(
      async () => {
        let dead = 0;
        for await (const { typedSearchAttributes } of world.temporal.workflow.list({ query })) {
          dead += typedSearchAttributes.get(SEARCH_ATTRIBUTES.dead) ?? 0;
        }
        return dead === ids.length;
      },
      "all to be dead letters in Temporal",
      PATIENCE_MS,
    );
    await world.sql.query("UPDATE endpoints SET state = 'ACTIVE' WHERE id = $1", [endpoint]);
    const args = ["--query", query, "--name", "replay", "--yes", "--reason", "fixed"];
    await temporalCli(world, "workflow", "signal", ...args);
    for (const id of ids) {
      expect(await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED")).toMatchObject({
        cycle: 2,
      });
    }
    await receiver.close();
  });
});
