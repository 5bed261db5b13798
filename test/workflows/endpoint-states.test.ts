/** Effects of an endpoint's state on its deliveries in progress. */
import { beforeAll, describe, expect, test } from "vitest";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { eventually } from "../support/eventually.ts";
import { type Behaviour, type Receiver, startReceiver } from "../support/receiver-server.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

const made = useWorld({ retryWindowMs: 20_000 });
const FAILURE: Behaviour = { kind: "answer", status: 500 };
const OK: Behaviour = { kind: "answer" };

beforeAll(async () => {
  await made.current.startWorker();
});

interface Failing {
  readonly receiver: Receiver;
  readonly tenant: string;
  readonly endpoint: string;
  readonly id: string;
  readonly until: (wanted: (delivery: Delivery) => boolean) => Promise<Delivery>;
}

/** Publishes a delivery that has failed at least once and keeps failing. */
async function publishFailing(): Promise<Failing> {
  const world = made.current;
  const receiver = await startReceiver({ script: [FAILURE] });
  const tenant = await world.createTenant();
  const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
  const { deliveries } = await world.publish(tenant);
  const id = deliveries[0]?.id ?? "";
  const until: Failing["until"] = async (wanted) => await world.untilDelivery(tenant, id, wanted);
  await until(({ state, workflow_id: carrier }) => state === "RETRYING" && carrier !== null);
  return { receiver, tenant, endpoint, id, until };
}

const typesAt = ({ requests }: Receiver): string[] =>
  requests.map(({ headers }) => String(headers["x-service-event-type"]));

describe.concurrent("another URL", () => {
  test("gets the waiting deliveries once it has acknowledged a ping, and nothing before", async () => {
    const { endpoints, sql } = made.current;
    const { receiver, tenant, endpoint, id, until } = await publishFailing();
    const other = await startReceiver({ script: [FAILURE] });
    await endpoints.update(tenant, endpoint, { url: other.url }, TEST_CALLER);
    await other.waitFor(1);
    // Its attempt falls due and is postponed without being made.
    const before = await until(
      ({ next_attempt_at: nextAttemptAt }) => (nextAttemptAt?.getTime() ?? 0) > Date.now() + 3_000,
    );
    const attempted = before.attempt_count;
    expect(before.state).toBe("RETRYING");
    expect(typesAt(other)).toEqual(["ping"]);
    const atOld = receiver.requests.length;
    expect(atOld).toBe(attempted);

    other.answer([OK]);
    await endpoints.verify(tenant, endpoint);
    await until(({ state }) => state === "DELIVERED");
    expect(await made.current.attempts(tenant, id)).toHaveLength(attempted + 1);
    expect(typesAt(other)).toEqual(["ping", "ping", "inference.completed"]);
    expect(receiver.requests).toHaveLength(atOld);
    const { rows } = await sql.query("SELECT generation FROM endpoints WHERE id = $1", [endpoint]);
    expect(rows).toEqual([{ generation: 2 }]);
    await Promise.all([receiver.close(), other.close()]);
  });

  test("that never acknowledges a ping gets nothing: dead letters, once no ping will follow", async () => {
    const { endpoints, sql } = made.current;
    const { receiver, tenant, endpoint, until } = await publishFailing();
    const other = await startReceiver({ script: [FAILURE] });
    await endpoints.update(tenant, endpoint, { url: other.url }, TEST_CALLER);
    await eventually(
      async () => (await endpoints.find(tenant, endpoint)).verification_attempts === 1,
      "the first ping to be on record",
    );
    await sql.query("UPDATE endpoints SET verification_state = 'EXHAUSTED' WHERE id = $1", [endpoint]);
    expect(await until(({ state }) => state === "DEAD_LETTERED")).toMatchObject({
      reason: "endpoint_disabled",
    });
    expect(typesAt(other)).toEqual(["ping"]);
    await Promise.all([receiver.close(), other.close()]);
  });
});

describe.concurrent("an endpoint that was disabled for failing", () => {
  const disableFailing = async (endpoint: string): Promise<void> => {
    await made.current.sql.query(
      "UPDATE endpoints SET state = 'DISABLED', disabled_reason = 'failing' WHERE id = $1",
      [endpoint],
    );
  };

  test("gets its started deliveries, which do not enable it again", async () => {
    const { receiver, tenant, endpoint, id, until } = await publishFailing();
    await disableFailing(endpoint);
    const { attempt_count: attemptCount } = await made.current.deliveries.find(tenant, id);
    await until((delivery) => delivery.attempt_count >= attemptCount + 2);
    receiver.answer([OK]);
    await until(({ state }) => state === "DELIVERED");
    expect(await made.current.endpoints.find(tenant, endpoint)).toMatchObject({
      state: "DISABLED",
      disabled_reason: "failing",
    });
    await receiver.close();
  });

  test("gets no new deliveries, neither replays nor events", async () => {
    const world = made.current;
    const { receiver, tenant, endpoint, id, until } = await publishFailing();
    await world.endpoints.disable(tenant, endpoint, TEST_CALLER);
    await until(({ state }) => state === "DEAD_LETTERED");
    const sent = receiver.requests.length;
    await disableFailing(endpoint);
    await expect(world.deliveries.replay(tenant, id, TEST_CALLER)).rejects.toMatchObject({
      code: "INVALID_STATE",
    });
    expect(await world.deliveries.find(tenant, id)).toMatchObject({ state: "DEAD_LETTERED", cycle: 1 });
    const { deliveries } = await world.publish(tenant);
    expect(deliveries).toMatchObject([{ state: "DEAD_LETTERED", reason: "endpoint_disabled" }]);
    expect(receiver.requests).toHaveLength(sent);
    await receiver.close();
  });
});

describe.concurrent("a test event", () => {
  test("goes to the one endpoint, signed and delivered like any other", async () => {
    const world = made.current;
    const [receiver, other] = [await startReceiver(), await startReceiver()];
    const tenant = await world.createTenant();
    const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
    await world.createEndpoint(tenant, other.url, ["*"]);
    const delivery = await world.endpoints.sendTest(tenant, endpoint, {});
    expect(delivery).toMatchObject({ endpoint_id: endpoint, event_type: "endpoint.test", state: "QUEUED" });
    const delivered = await world.untilDelivery(tenant, delivery.id, ({ state }) => state === "DELIVERED");
    const carrier = delivered.workflow_id ?? "";
    await eventually(
      async () => (await world.temporal.workflow.getHandle(carrier).describe()).status.name === "COMPLETED",
      "the workflow to end",
    );
    expect(typesAt(receiver)).toEqual(["endpoint.test"]);
    expect(other.requests).toEqual([]);
    const own = await world.endpoints.sendTest(tenant, endpoint, { type: "a.b", data: '{"n":1.0}' });
    await world.untilDelivery(tenant, own.id, ({ state }) => state === "DELIVERED");
    expect(receiver.requests[1]?.rawBody.toString()).toContain('"data":{"n":1.0}');
    expect(typesAt(receiver)).toEqual(["endpoint.test", "a.b"]);
    await Promise.all([receiver.close(), other.close()]);
  });

  test.each(["PENDING", "DISABLED"])("is refused to an endpoint that is %s", async (state) => {
    const world = made.current;
    const tenant = await world.createTenant();
    const { id } = await world.createEndpoint(tenant, "http://127.0.0.1:9");
    await world.sql.query("UPDATE endpoints SET state = $2 WHERE id = $1", [id, state]);
    await expect(world.endpoints.sendTest(tenant, id, {})).rejects.toMatchObject({ code: "INVALID_STATE" });
  });
});
