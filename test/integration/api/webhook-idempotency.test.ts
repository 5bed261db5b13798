/** A POST with an Idempotency-Key runs once in 24 hours, however often it is sent (contract 6.2). */
import { describe, expect, test } from "vitest";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { accessToken, provision } from "#test/support/factories.ts";
import {
  asTenant,
  createEndpoint,
  createTenant,
  type Json,
  renew,
  rows,
  sql,
  type Tenant,
  WEBHOOK_SCOPES,
} from "#test/support/tenant.ts";

const api = useTestApi();
const DAY_MS = 86_400_000;
const EVENTS = "/v1/events";
const ENDPOINTS = "/v1/webhooks/endpoints";
const EVENT: Json = { type: "inference.completed", data: { n: 1 } };
const BAD: Json = { type: "inference.completed" };
const keyed = (key: string): Record<string, string> => ({ "idempotency-key": key });
const numbered = (count: number): Json[] =>
  Array.from({ length: count }, (_, n) => ({ ...EVENT, data: { n } }));

const isReplay = ({ headers }: Answer): boolean => headers.get("idempotent-replayed") === "true";
/** Returns the items of a batch's answer. */
const items = ({ body }: Answer): readonly Json[] => body["data"] as Json[];
const ids = (answer: Answer): readonly unknown[] => items(answer).map(({ id }) => id);

async function eventCount({ tenantId }: Tenant): Promise<number> {
  return (await sql(api, "SELECT FROM events WHERE tenant_id = $1", [tenantId])).length;
}

const REUSED = { status: 409, body: { code: "IDEMPOTENCY_KEY_REUSED" } };

describe("one event", () => {
  test("sent again with its key gets the same answer and is published once", async () => {
    const tenant = await createTenant(api);
    await createEndpoint(api, tenant);
    const first = await tenant.post(EVENTS, EVENT, keyed("k"));
    const second = await tenant.post(EVENTS, EVENT, keyed("k"));
    expect(first).toMatchObject({ status: 202, body: { deliveries: 1 } });
    expect([isReplay(first), isReplay(second)]).toEqual([false, true]);
    expect(second).toMatchObject({ status: 202, body: first.body });
    expect(await eventCount(tenant)).toBe(1);
    expect(rows(await tenant.get("/v1/webhooks/deliveries"))).toHaveLength(1);
  });

  test("is the same with other white space and member order in its envelope", async () => {
    const tenant = await createTenant(api);
    const first = await tenant.send("POST", EVENTS, {
      raw: '{"type":"a.b","data":{"n":1},"id":"x"}',
      headers: keyed("k"),
    });
    const second = await tenant.send("POST", EVENTS, {
      raw: '{ "id": "\\u0078",\n"data": {"n":1}, "type": "a.b" }',
      headers: keyed("k"),
    });
    expect(second).toMatchObject({ status: 202, body: first.body });
    expect(isReplay(second)).toBe(true);
  });

  test.each<[string, Json]>([
    ["other data", { ...EVENT, data: { n: 2 } }],
    ["the number as a string", { ...EVENT, data: { n: "1" } }],
    ["another type", { ...EVENT, type: "inference.failed" }],
    ["an id", { ...EVENT, id: "x" }],
    ["a time", { ...EVENT, occurred_at: "2025-01-01T00:00:00Z" }],
  ])("with %s and the same key is rejected", async (_name, other) => {
    const tenant = await createTenant(api);
    await tenant.post(EVENTS, EVENT, keyed("k"));
    expect(await tenant.post(EVENTS, other, keyed("k"))).toMatchObject(REUSED);
    expect(await eventCount(tenant)).toBe(1);
  });

  test("sent a hundred times concurrently is published once", async () => {
    const tenant = await createTenant(api);
    const answers = await Promise.all(
      Array.from({ length: 100 }, async () => await tenant.post(EVENTS, EVENT, keyed("k"))),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(new Set(answers.map(({ body }) => body["id"])).size).toBe(1);
    expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(1);
    expect(await eventCount(tenant)).toBe(1);
  });

  test("is published once when a hundred different events share a key, and the other 99 are rejected", async () => {
    const tenant = await createTenant(api);
    const answers = await Promise.all(
      numbered(100).map(async (event) => await tenant.post(EVENTS, event, keyed("k"))),
    );
    const statuses = answers.map(({ status }) => status).sort((left, right) => left - right);
    expect(statuses).toEqual([202, ...Array.from({ length: 99 }, () => 409)]);
    expect(await eventCount(tenant)).toBe(1);
  });

  test("that was rejected leaves its key free", async () => {
    const tenant = await createTenant(api);
    expect(await tenant.post(EVENTS, BAD, keyed("k"))).toMatchObject({ status: 422 });
    expect(await tenant.post(EVENTS, EVENT, keyed("k"))).toMatchObject({ status: 202 });
  });

  test("can have the same key as another tenant's event", async () => {
    const [one, other] = [await createTenant(api), await createTenant(api)];
    const first = await one.post(EVENTS, EVENT, keyed("k"));
    const second = await other.post(EVENTS, { ...EVENT, data: {} }, keyed("k"));
    expect(second).toMatchObject({ status: 202 });
    expect(second.body["id"]).not.toBe(first.body["id"]);
  });

  test("that the platform publishes for a tenant does not use that tenant's key", async () => {
    const made = await api.admin("POST", "/tenants", { name: "platform", region: "eu", platform: true });
    const client = await provision(api, {
      tenantId: String(made.body["id"]),
      scopes: [...WEBHOOK_SCOPES, "events:publish_any"],
    });
    const platform = asTenant(api, client, await accessToken(api, client));
    const [one, other] = [await createTenant(api), await createTenant(api)];
    const forOne = { ...EVENT, tenant_id: one.tenantId };
    const first = await platform.post(EVENTS, forOne, keyed("k"));
    expect(await one.post(EVENTS, EVENT, keyed("k"))).toMatchObject({ status: 202 });
    expect(await eventCount(one)).toBe(2);
    // For the platform it is one key, whichever tenant the event is for.
    expect(await platform.post(EVENTS, { ...EVENT, tenant_id: other.tenantId }, keyed("k"))).toMatchObject(
      REUSED,
    );
    const again = await platform.post(EVENTS, forOne, keyed("k"));
    expect([again.body["id"], isReplay(again)]).toEqual([first.body["id"], true]);
  });
});

describe("a batch", () => {
  test("sent again with its key gets the same answer and is published once", async () => {
    const tenant = await createTenant(api);
    const events = numbered(5);
    const first = await tenant.post(EVENTS, { events }, keyed("k"));
    const second = await tenant.post(EVENTS, { events }, keyed("k"));
    expect(first).toMatchObject({ status: 202 });
    expect(second).toMatchObject({ status: 202, body: first.body });
    expect([isReplay(first), isReplay(second)]).toEqual([false, true]);
    expect(await eventCount(tenant)).toBe(5);
  });

  test("that was interrupted is completed by sending it again", async () => {
    const tenant = await createTenant(api);
    const events = numbered(5);
    const first = ids(await tenant.post(EVENTS, { events }, keyed("k")));
    // Simulates a process that died in the middle: only the first two events remain.
    const lost = first.slice(2);
    await sql(api, "DELETE FROM events WHERE id = ANY ($1)", [lost]);
    await sql(api, "DELETE FROM idempotency_keys WHERE resource_id = ANY ($1)", [lost]);
    const second = await tenant.post(EVENTS, { events }, keyed("k"));
    expect(ids(second).slice(0, 2)).toEqual(first.slice(0, 2));
    expect(new Set(ids(second)).size).toBe(5);
    expect(await eventCount(tenant)).toBe(5);
    expect(ids(await tenant.post(EVENTS, { events }, keyed("k")))).toEqual(ids(second));
  });

  test.each<[string, Json[]]>([
    ["another event", [...numbered(2), { ...EVENT, data: { n: 9 } }]],
    ["one event more", numbered(4)],
    ["one event fewer", numbered(2)],
    ["another order", numbered(3).toReversed()],
    ["an invalid item instead of an event", [BAD, ...numbered(3).slice(1)]],
  ])("with %s and the same key is rejected as a whole", async (_name, events) => {
    const tenant = await createTenant(api);
    await tenant.post(EVENTS, { events: numbered(3) }, keyed("k"));
    expect(await tenant.post(EVENTS, { events }, keyed("k"))).toMatchObject(REUSED);
    expect(await eventCount(tenant)).toBe(3);
  });

  test("with a different invalid item is a different batch", async () => {
    const tenant = await createTenant(api);
    await tenant.post(EVENTS, { events: [EVENT, BAD] }, keyed("k"));
    expect(await tenant.post(EVENTS, { events: [EVENT, { ...BAD, id: "x" }] }, keyed("k"))).toMatchObject(
      REUSED,
    );
  });

  test.each<[string, Json]>([
    ["is not an event", BAD],
    ["has an impossible time", { ...EVENT, occurred_at: "2025-02-30T00:00:00Z" }],
    [
      "is for a tenant that the caller may not publish for",
      { ...EVENT, tenant_id: "ten_000000000000000000000000" },
    ],
  ])("whose first item %s is recognized by its key like any other", async (_name, bad) => {
    const tenant = await createTenant(api);
    const events = [bad, ...numbered(2)];
    const first = await tenant.post(EVENTS, { events }, keyed("k"));
    const second = await tenant.post(EVENTS, { events }, keyed("k"));
    expect(items(first)).toMatchObject([{ index: 0, error: {} }, { index: 1 }, { index: 2 }]);
    expect(second).toMatchObject({ status: 202, body: first.body });
    expect(isReplay(second)).toBe(true);
    expect(await tenant.post(EVENTS, { events: [bad, ...numbered(3)] }, keyed("k"))).toMatchObject(REUSED);
    expect(await eventCount(tenant)).toBe(2);
  });

  test("and a single event cannot share a key", async () => {
    const [one, other] = [await createTenant(api), await createTenant(api)];
    await one.post(EVENTS, EVENT, keyed("k"));
    expect(await one.post(EVENTS, { events: [EVENT] }, keyed("k"))).toMatchObject(REUSED);
    await other.post(EVENTS, { events: [EVENT] }, keyed("k"));
    expect(await other.post(EVENTS, EVENT, keyed("k"))).toMatchObject(REUSED);
  });

  test("sent ten times concurrently is published once", async () => {
    const tenant = await createTenant(api);
    const events = numbered(20);
    const answers = await Promise.all(
      Array.from({ length: 10 }, async () => await tenant.post(EVENTS, { events }, keyed("k"))),
    );
    expect(new Set(answers.map((answer) => JSON.stringify(ids(answer)))).size).toBe(1);
    expect(await eventCount(tenant)).toBe(20);
  });
});

describe("an endpoint", () => {
  const ENDPOINT: Json = {
    url: "https://example.com/hook",
    events: ["a.b"],
    metadata: { a: 1 },
    description: "x",
  };

  test("registered again with its key is the same one, with the same secret", async () => {
    const tenant = await createTenant(api);
    const first = await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"));
    const second = await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"));
    expect(first).toMatchObject({ status: 201, body: { secret: expect.stringMatching(/^whsec_/) } });
    expect(second).toMatchObject({ status: 201, body: first.body });
    expect([isReplay(first), isReplay(second)]).toEqual([false, true]);
    expect(second.headers.get("cache-control")).toBe("no-store");
    expect(rows(await tenant.get(ENDPOINTS))).toHaveLength(1);
  });

  test("registered twenty times concurrently with one key is one endpoint with one secret", async () => {
    const tenant = await createTenant(api);
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"))),
    );
    expect(
      new Set(answers.map(({ status, body }) => `${status} ${String(body["id"])} ${String(body["secret"])}`))
        .size,
    ).toBe(1);
    expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(1);
    expect(rows(await tenant.get(ENDPOINTS))).toHaveLength(1);
  });

  test.each<[string, Json]>([
    ["another url", { ...ENDPOINT, url: "https://example.com/other" }],
    ["other events", { ...ENDPOINT, events: ["*"] }],
    ["other metadata", { ...ENDPOINT, metadata: { a: 2 } }],
    ["no metadata", { ...ENDPOINT, metadata: undefined }],
    ["another description", { ...ENDPOINT, description: "y" }],
  ])("with %s and the same key is rejected", async (_name, other) => {
    const tenant = await createTenant(api);
    await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"));
    expect(await tenant.post(ENDPOINTS, other, keyed("k"))).toMatchObject(REUSED);
    expect(rows(await tenant.get(ENDPOINTS))).toHaveLength(1);
  });

  test("that was deleted is not created again by its key", async () => {
    const tenant = await createTenant(api);
    const { body } = await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"));
    expect(await tenant.send("DELETE", `${ENDPOINTS}/${String(body["id"])}`)).toMatchObject({ status: 204 });
    expect(await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"))).toMatchObject({
      status: 409,
      body: { code: "CONFLICT" },
    });
  });

  test("and an event can share a key, and so can two tenants", async () => {
    const [one, other] = [await createTenant(api), await createTenant(api)];
    const first = await one.post(ENDPOINTS, ENDPOINT, keyed("k"));
    expect(await one.post(EVENTS, EVENT, keyed("k"))).toMatchObject({ status: 202 });
    const second = await other.post(ENDPOINTS, ENDPOINT, keyed("k"));
    expect(second).toMatchObject({ status: 201 });
    expect(second.body["secret"]).not.toBe(first.body["secret"]);
  });

  test("that was rejected leaves its key free", async () => {
    const tenant = await createTenant(api);
    const forbidden = { ...ENDPOINT, url: "https://10.0.0.1/" };
    expect(await tenant.post(ENDPOINTS, forbidden, keyed("k"))).toMatchObject({ status: 422 });
    expect(await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"))).toMatchObject({ status: 201 });
  });
});

describe("a key", () => {
  test("identifies its request for 24 hours and is free again after that", async () => {
    const ENDPOINT: Json = { url: "https://example.com/hook", events: ["*"] };
    let tenant = await createTenant(api);
    const event = await tenant.post(EVENTS, EVENT, keyed("k"));
    const batch = await tenant.post(EVENTS, { events: numbered(3) }, keyed("b"));
    const endpoint = await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"));

    api.clock.advance(DAY_MS - 60_000);
    tenant = await renew(api, tenant);
    expect((await tenant.post(EVENTS, EVENT, keyed("k"))).body).toEqual(event.body);
    expect(ids(await tenant.post(EVENTS, { events: numbered(3) }, keyed("b")))).toEqual(ids(batch));
    expect((await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"))).body["id"]).toBe(endpoint.body["id"]);

    api.clock.advance(120_000);
    const other = { ...EVENT, data: { n: 3 } };
    const later = await tenant.post(EVENTS, other, keyed("k"));
    expect(later).toMatchObject({ status: 202 });
    expect(later.body["id"]).not.toBe(event.body["id"]);
    expect(isReplay(later)).toBe(false);
    expect(isReplay(await tenant.post(EVENTS, other, keyed("k")))).toBe(true);
    const laterBatch = await tenant.post(EVENTS, { events: numbered(3) }, keyed("b"));
    expect(isReplay(laterBatch)).toBe(false);
    expect(ids(laterBatch).filter((id) => ids(batch).includes(id))).toEqual([]);
    const laterEndpoint = await tenant.post(ENDPOINTS, ENDPOINT, keyed("k"));
    expect(laterEndpoint).toMatchObject({ status: 201 });
    expect(laterEndpoint.body["secret"]).not.toBe(endpoint.body["secret"]);
  });

  test("of a deleted event is rejected immediately", async () => {
    const tenant = await createTenant(api);
    const { body } = await tenant.post(EVENTS, EVENT, keyed("k"));
    await sql(api, "DELETE FROM events WHERE id = $1", [body["id"]]);
    expect(await tenant.post(EVENTS, EVENT, keyed("k"))).toMatchObject({
      status: 409,
      body: { code: "CONFLICT" },
    });
  });
});
