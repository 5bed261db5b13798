import { beforeAll, describe, expect, test } from "vitest";
import { startReceiver } from "../support/receiver-server.ts";
import { useWorld } from "../support/world.ts";

const world = useWorld();

beforeAll(async () => {
  await world.current.startWorker();
});

describe("a healthy receiver", () => {
  test("gets a signed delivery at once, recorded as one attempt", async () => {
    const receiver = await startReceiver();
    const tenant = await world.current.createTenant();
    const endpoint = await world.current.createEndpoint(tenant, receiver.url);
    const { deliveries, event } = await world.current.publish(tenant, { n: 1 });
    const id = deliveries[0]?.id ?? "";
    await receiver.waitFor(1);
    const delivered = await world.current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered).toMatchObject({
      attempt_count: 1,
      cycle: 1,
      workflow_id: id,
      last_status: 200,
      last_error: null,
    });
    expect(await world.current.attempts(tenant, id)).toMatchObject([{ cycle: 1, attempt: 1, status: 200 }]);
    const [request] = receiver.requests;
    expect(request?.headers["x-service-event-id"]).toBe(event.id);
    expect(receiver.requests).toHaveLength(1);
    expect(endpoint.id).toMatch(/^ep_/);
    await receiver.close();
  });
});

describe("a failing receiver", () => {
  test("is attempted 17 times, then the delivery is a dead letter whose workflow stays open", async () => {
    const receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
    const tenant = await world.current.createTenant();
    await world.current.createEndpoint(tenant, receiver.url);
    const { deliveries } = await world.current.publish(tenant);
    const id = deliveries[0]?.id ?? "";
    const dead = await world.current.untilDelivery(tenant, id, ({ state }) => state === "DEAD_LETTERED");
    expect(dead).toMatchObject({ attempt_count: 17, reason: "attempts_exhausted", last_status: 500 });
    expect(receiver.requests).toHaveLength(17);
    const description = await (await world.current.workflowOf(tenant, id)).describe();
    expect(description.status.name).toBe("RUNNING");
    await receiver.close();
  });
});
