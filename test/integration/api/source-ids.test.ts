/**
 * A publisher's own event id: deduplicated for 24 hours, searchable, and sent to receivers
 * (contract 6.1).
 */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { accessToken, provision } from "#test/support/factories.ts";
import { eventually } from "#test/support/eventually.ts";
import { createProducer, seconds, sendSigned, signed } from "#test/support/producer.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { asTenant, createTenant, type Json, renew, rows, sql, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi({ worker: true });
const EVENTS = "/v1/events";
const isReplay = ({ headers }: Answer): boolean => headers.get("idempotent-replayed") === "true";
const newEvent = (more: Json = {}): Json => ({ type: "a.b", data: { n: 1 }, id: randomUUID(), ...more });
const items = ({ body }: Answer): readonly Json[] => body["data"] as Json[];

async function stored({ tenantId }: Tenant, { id }: Json): Promise<number> {
  const found = await sql(api, "SELECT FROM events WHERE tenant_id = $1 AND source_id = $2", [tenantId, id]);
  return found.length;
}

/** Makes the tenant's keys older. */
async function age({ tenantId }: Tenant, by: string): Promise<void> {
  await sql(api, "UPDATE idempotency_keys SET created_at = created_at - $2::interval WHERE tenant_id = $1", [
    tenantId,
    by,
  ]);
}

const ID_REUSED = {
  status: 409,
  body: { code: "IDEMPOTENCY_KEY_REUSED", errors: [{ pointer: "/id", code: "reused" }] },
};

test("the same event with the same id is published once, whichever principal of the tenant sends it", async () => {
  const tenant = await createTenant(api);
  const client = await provision(api, { scopes: ["events:publish"], tenantId: tenant.tenantId });
  const colleague = asTenant(api, client, await accessToken(api, client));
  const event = newEvent();
  const first = await tenant.post(EVENTS, event);
  expect([first.status, isReplay(first)]).toEqual([202, false]);
  for (const sender of [tenant, colleague]) {
    const again = await sender.post(EVENTS, event);
    expect([again.status, again.text, isReplay(again)]).toEqual([202, first.text, true]);
  }
  expect(await tenant.post(EVENTS, { ...event, data: { n: 2 } })).toMatchObject(ID_REUSED);
  expect(await stored(tenant, event)).toBe(1);
  const stranger = await createTenant(api);
  expect(isReplay(await stranger.post(EVENTS, event))).toBe(false);
});

test("a hundred concurrent requests publish one event, with one Idempotency-Key or one each", async () => {
  const tenant = await createTenant(api);
  for (const keyed of [undefined, (): string => "k", randomUUID]) {
    const event = newEvent();
    const answers = await Promise.all(
      Array.from({ length: 100 }, async () =>
        keyed === undefined
          ? await tenant.post(EVENTS, event)
          : await tenant.post(EVENTS, event, { "idempotency-key": keyed() }),
      ),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(1);
    expect(await stored(tenant, event)).toBe(1);
  }
});

test("each item of a batch is deduplicated by its own id, with and without an Idempotency-Key", async () => {
  const tenant = await createTenant(api);
  const known = newEvent();
  const first = await tenant.post(EVENTS, known);
  const fresh = newEvent();
  const events = [known, { ...known, data: {} }, fresh, fresh, { type: "a.b", data: {} }];
  for (const headers of [{}, { "idempotency-key": "batch" }]) {
    const answer = await tenant.post(EVENTS, { events: events.slice(0, 4) }, headers);
    expect(answer.status).toBe(202);
    expect(items(answer)[0]).toEqual({ index: 0, ...first.body, replayed: true });
    expect(items(answer)[1]).toMatchObject({ error: { ...ID_REUSED.body, status: 409 } });
    expect(items(answer)[2]?.["id"]).toBe(items(answer)[3]?.["id"]);
  }
  expect(await stored(tenant, known)).toBe(1);
  expect(await stored(tenant, fresh)).toBe(1);
  const keyed = { "idempotency-key": randomUUID() };
  const whole = await tenant.post(EVENTS, { events }, keyed);
  const repeated = await tenant.post(EVENTS, { events }, keyed);
  expect([whole.status, isReplay(whole)]).toEqual([202, false]);
  expect([repeated.text, isReplay(repeated)]).toEqual([whole.text, true]);
});

test("a signed event is recognized by its id after its signature is forgotten, and when it is sent unsigned", async () => {
  const producer = await createProducer(api);
  const { tenant } = producer;
  const event = { type: "a.b", data: { n: 1 }, id: randomUUID() };
  const first = await sendSigned(api, signed(producer, event, seconds(api)));
  expect(first.status).toBe(202);
  const unsigned = await tenant.post(EVENTS, event);
  expect([unsigned.status, unsigned.text, isReplay(unsigned)]).toEqual([202, first.text, true]);
  await age(tenant, "1 hour");
  const later = await sendSigned(api, signed(producer, event, seconds(api)));
  expect([later.status, later.text, isReplay(later)]).toEqual([202, first.text, true]);
  expect(await sendSigned(api, signed(producer, { ...event, data: {} }, seconds(api)))).toMatchObject(
    ID_REUSED,
  );
  expect(await stored(tenant, event)).toBe(1);
});

test("an id is stored as a digest for 24 hours", async () => {
  const tenant = await createTenant(api);
  const event = newEvent();
  await tenant.post(EVENTS, event);
  const kept = await sql(api, "SELECT key FROM idempotency_keys WHERE tenant_id = $1", [tenant.tenantId]);
  expect(kept).toEqual([{ key: expect.not.stringContaining(String(event["id"])) }]);
  await age(tenant, "1 day");
  const later = await (await renew(api, tenant)).post(EVENTS, { ...event, data: {} });
  expect([later.status, isReplay(later)]).toEqual([202, false]);
});

test("events can be found by their publisher's id, and receivers get it in the signed body", async () => {
  const tenant = await createTenant(api);
  const receiver = await startReceiver();
  const { body } = await tenant.post("/v1/webhooks/endpoints", { url: receiver.url, events: ["a.b"] });
  await eventually(
    async () => (await tenant.get(`/v1/webhooks/endpoints/${String(body["id"])}`)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
  const event = newEvent({ id: 'order "7" é' });
  const named = await tenant.post(EVENTS, event);
  const unnamed = await tenant.post(EVENTS, { type: "a.b", data: {} });
  const found = await tenant.get(`${EVENTS}?id=${encodeURIComponent(String(event["id"]))}`);
  expect(rows(found)).toMatchObject([{ id: named.body["id"], source_id: event["id"] }]);
  expect(rows(await tenant.get(`${EVENTS}?id=other`))).toEqual([]);
  const bodyOf = async (answer: Answer): Promise<Json> =>
    await eventually(
      () =>
        receiver.requests
          .map(({ rawBody }) => JSON.parse(rawBody.toString()) as Json)
          .find(({ id }) => id === answer.body["id"]),
      "the receiver to get the event",
    );
  expect(await bodyOf(named)).toMatchObject({ source_id: event["id"] });
  expect(await bodyOf(unnamed)).not.toHaveProperty("source_id");
  await receiver.close();
});
