/** Contract 3: an endpoint is PENDING until it acknowledges a signed ping with 200 within 5 seconds. */
import { expect, test } from "vitest";
import {
  deployedApi,
  publishOne,
  receiverOf,
  untilDelivery,
  verifiedEndpoint,
} from "../support/deployed-api.ts";
import { eventually } from "../support/eventually.ts";
import { withoutPause } from "../support/pauses.ts";
import { type Behaviour, type Receiver, verifyReceived } from "../support/receiver-server.ts";
import { createTenant, type Json, publish, type Tenant } from "../support/tenant.ts";

const api = deployedApi();

interface Registered {
  readonly tenant: Tenant;
  readonly receiver: Receiver;
  readonly path: string;
  readonly secret: string;
}

async function register(...script: readonly Behaviour[]): Promise<Registered> {
  const receiver = await receiverOf({ script });
  const tenant = await createTenant(api);
  const answer = await tenant.post("/v1/webhooks/endpoints", {
    url: receiver.url,
    events: ["inference.completed"],
    metadata: { route: "eu-1" },
  });
  expect(answer).toMatchObject({ status: 201, body: { state: "PENDING", metadata: { route: "eu-1" } } });
  const secret = String(answer.body["secret"]);
  expect(secret).toMatch(/^whsec_/);
  return { tenant, receiver, path: `/v1/webhooks/endpoints/${String(answer.body["id"])}`, secret };
}

async function untilPinged({ tenant, path }: Registered, attempts: number): Promise<Json> {
  return await eventually(async () => {
    const { body } = await tenant.get(path);
    return (body["verification"] as Json)["attempts"] === attempts ? body : undefined;
  }, `ping ${attempts} to be recorded`);
}

test("the secret signs a ping that is sent at once; 200 makes the endpoint ACTIVE", async () => {
  const { tenant, receiver, path, secret } = await withoutPause(async () => {
    const registered = await register({ kind: "answer" });
    await registered.receiver.waitFor(1, 5_000);
    return registered;
  });
  const [ping] = receiver.requests;
  expect(verifyReceived(ping as NonNullable<typeof ping>, [secret]).payload).toMatchObject({
    type: "ping",
    data: { challenge: expect.stringMatching(/^[\w-]{43}$/) },
  });
  await eventually(
    async () => (await tenant.get(path)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
  expect(receiver.requests).toHaveLength(1);
  const id = await publishOne(tenant);
  await untilDelivery(tenant, id, { state: "DELIVERED" });
});

test.each<readonly [string, Behaviour, string]>([
  ["answers 204", { kind: "answer", status: 204 }, "status"],
  ["answers 500", { kind: "answer", status: 500 }, "status"],
  ["redirects to an answer of 200", { kind: "redirect", location: "/elsewhere" }, "status"],
  ["answers 200 after 5 seconds", { kind: "answer", delayMs: 5_500 }, "timeout"],
])("an endpoint that %s stays PENDING and gets no events", async (_name, behaviour, error) => {
  const { tenant, receiver, path } = await withoutPause(async () => {
    const registered = await register(behaviour, { kind: "answer" });
    const refused = await untilPinged(registered, 1);
    expect(refused).toMatchObject({ state: "PENDING", verification: { last_error: error, attempts: 1 } });
    return registered;
  });
  const eventId = await publish(tenant);
  expect((await tenant.get(`/v1/webhooks/deliveries?event_id=${eventId}`)).body["data"]).toEqual([]);
  expect(receiver.requests).toHaveLength(1);

  // The challenge is resolved by a later ping.
  expect(await tenant.post(`${path}/verify`)).toMatchObject({ status: 202 });
  await eventually(
    async () => (await tenant.get(path)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
  const types = receiver.requests.map(({ rawBody }) => (JSON.parse(rawBody.toString()) as Json)["type"]);
  expect(types).toEqual(["ping", "ping"]);
});

test("a verification is carried by a Temporal workflow that an operator can signal", async () => {
  const registered = await register({ kind: "answer", status: 500 }, { kind: "answer" });
  const { verification } = await untilPinged(registered, 1);
  const { workflow_id: workflowId } = verification as Json;
  const args = ["--workflow-id", String(workflowId), "--name", "attemptNow"];
  await api.temporal("workflow", "signal", ...args);
  await eventually(
    async () => (await registered.tenant.get(registered.path)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
});

test("an endpoint's new event types and filter count from the next event", async () => {
  const { tenant, id } = await verifiedEndpoint(api, { events: ["order.paid"] });
  const path = `/v1/webhooks/endpoints/${id}`;
  const deliveries = async (type: string, amount: number): Promise<unknown> =>
    (await tenant.post("/v1/events", { type, data: { amount } })).body["deliveries"];
  expect(await deliveries("order.paid", 1)).toBe(1);
  for (const [change, expected] of [
    [{ events: ["order.sent"] }, [0, 1]],
    [{ filter: { "data.amount": 2 } }, [0, 0]],
    [{ events: ["order.paid"], filter: null }, [1, 0]],
  ] as const) {
    expect(await tenant.send("PATCH", path, { body: change })).toMatchObject({ status: 200 });
    expect([await deliveries("order.paid", 1), await deliveries("order.sent", 1)]).toEqual(expected);
  }
});
