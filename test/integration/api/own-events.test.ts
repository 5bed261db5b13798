/** Only the service can publish its own event types (security decisions H). */
import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { OWN_EVENT_TYPES } from "#domain/own-event-types.ts";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import {
  createProducer,
  PRODUCER_SCOPES,
  type Producer,
  seconds,
  sendSigned,
  signed,
} from "#test/support/producer.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { type Json, sql, type Tenant, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

const api = useSharedApi({ worker: true });
let producer: Producer;
let tenant: Tenant;
let receiver: Receiver;
let endpoint: string;

beforeAll(async () => {
  producer = await createProducer(api, [...PRODUCER_SCOPES, ...WEBHOOK_SCOPES]);
  ({ tenant } = producer);
  receiver = await startReceiver();
  const made = await tenant.post("/v1/webhooks/endpoints", { url: receiver.url, events: ["*"] });
  endpoint = String(made.body["id"]);
  await eventually(
    async () => (await tenant.get(`/v1/webhooks/endpoints/${endpoint}`)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
  return async () => await receiver.close();
});

const FORGED = [
  ...OWN_EVENT_TYPES,
  "signet.grade",
  "signet.anything",
  "endpoint.created",
  "credential.rotated",
  "delivery.completed",
  "dead_letter.gone",
  "verification.passed",
] as const;

const RESERVED = { code: "reserved", detail: expect.stringContaining("is reserved") as string };

async function eventsOf(type: string): Promise<number> {
  return (await sql(api, "SELECT FROM events WHERE tenant_id = $1 AND type = $2", [tenant.tenantId, type]))
    .length;
}

/** Ways to send a type, with the pointer to the type in the body. */
const WAYS: readonly [string, string, (type: string) => Promise<Answer>][] = [
  ["one event", "/type", async (type) => await tenant.post("/v1/events", { type, data: {} })],
  [
    "a signed event",
    "/type",
    async (type) =>
      await sendSigned(api, signed(producer, { id: randomUUID(), type, data: {} }, seconds(api))),
  ],
  ["a catalogue entry", "/name", async (name) => await tenant.post("/v1/webhooks/event-types", { name })],
];

test.each(WAYS)("%s with a type of the service is rejected", async (_way, pointer, send) => {
  for (const type of FORGED) {
    const answer = await send(type);
    expect({ type, answer }).toMatchObject({
      type,
      answer: { status: 422, body: { code: "VALIDATION_FAILED", errors: [{ pointer, ...RESERVED }] } },
    });
    expect(await eventsOf(type)).toBe(0);
  }
});

test.each<[string, (events: Json[]) => Promise<Answer>]>([
  ["a batch", async (events) => await tenant.post("/v1/events", { events })],
  [
    "a signed batch",
    async (events) => await sendSigned(api, signed(producer, { id: randomUUID(), events }, seconds(api))),
  ],
])("%s rejects its items of the service's types and accepts the others", async (_way, send) => {
  const answer = await send([...FORGED, "robot.task_completed"].map((type) => ({ type, data: {} })));
  expect(answer).toMatchObject({ status: 202 });
  const items = answer.body["data"] as readonly Json[];
  expect(items).toMatchObject([
    ...FORGED.map(() => ({ error: { status: 422, errors: [{ pointer: "/type", ...RESERVED }] } })),
    { type: "robot.task_completed" },
  ]);
});

test("a test event can have only one of the service's types, its own", async () => {
  for (const type of FORGED.filter((name) => name !== "endpoint.test")) {
    const answer = await tenant.post(`/v1/webhooks/endpoints/${endpoint}/test`, { type });
    expect({ type, answer }).toMatchObject({
      type,
      answer: { status: 422, body: { errors: [{ pointer: "/type", ...RESERVED }] } },
    });
  }
});

test("similar types stay allowed, and endpoints can still subscribe to the service's types", async () => {
  for (const type of ["endpoints.created", "robot.endpoint.disabled", "credentials.used", "signets.grade"]) {
    expect(await tenant.post("/v1/events", { type, data: {} })).toMatchObject({ status: 202 });
  }
  const taking = { url: receiver.url, events: [...OWN_EVENT_TYPES] };
  expect(await tenant.post("/v1/webhooks/endpoints", taking)).toMatchObject({ status: 201 });
});

test("a receiver can tell from the signed body whether the service published an event", async () => {
  await tenant.post(`/v1/webhooks/endpoints/${endpoint}/test`);
  await tenant.post(`/v1/webhooks/endpoints/${endpoint}/test`, {
    type: "endpoint.test",
    data: { forged: true },
  });
  await tenant.post("/v1/events", { type: "robot.task_completed", data: { own: true } });
  const published = await tenant.post("/v1/events", { type: "a.b", data: {} });
  // Simulates an event from before the types were reserved.
  await sql(api, "UPDATE events SET type = 'credential.revoked' WHERE id = $1", [published.body["id"]]);
  const bodies = (): Json[] => receiver.requests.map(({ rawBody }) => JSON.parse(rawBody.toString()) as Json);
  const found = async (wanted: Json): Promise<Json> =>
    await eventually(
      () => bodies().find((body) => expect.objectContaining(wanted).asymmetricMatch(body)),
      `the receiver to get ${JSON.stringify(wanted)}`,
    );
  const { source: ofPing } = await found({ type: "ping" });
  const { source: ofTest } = await found({ data: { message: "This is a test event." } });
  expect([ofPing, ofTest]).toEqual(["service", "service"]);
  expect(await found({ data: { forged: true } })).not.toHaveProperty("source");
  expect(await found({ data: { own: true } })).not.toHaveProperty("source");
  expect(await found({ id: published.body["id"] })).not.toHaveProperty("source");
});
