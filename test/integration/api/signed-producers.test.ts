/** The ingress validator (contract 6): events published with a producer's signature. */
import { createHmac, randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { bearer } from "#test/support/factories.ts";
import {
  createProducer,
  makeSigningSecret,
  type Producer,
  seconds,
  sendSigned,
  signed,
  type SignedParts,
  signedV1,
} from "#test/support/producer.ts";
import { expectRefusal, type Json, sql } from "#test/support/tenant.ts";

const api = useSharedApi();
let producer: Producer;
let other: Producer;

beforeAll(async () => {
  producer = await createProducer(api);
  other = await createProducer(api);
});

const newEvent = (more: Json = {}): Json & { id: string } => ({
  id: randomUUID(),
  type: "a.b",
  data: { n: 1.0 },
  ...more,
});

async function eventsOf(id: string): Promise<number> {
  return (await sql(api, "SELECT FROM events WHERE source_id = $1", [id])).length;
}

describe("a signed event", () => {
  test("is published without a token, for the tenant whose credential signed it", async () => {
    const event = newEvent();
    const answer = await sendSigned(api, signed(producer, event, seconds(api)));
    expect(answer).toMatchObject({ status: 202, body: { type: "a.b", deliveries: 0 } });
    const read = await producer.tenant.get(`/v1/events/${String(answer.body["id"])}`);
    expect(read).toMatchObject({ status: 200, body: { source_id: event.id } });
    expect(await other.tenant.get(`/v1/events/${String(answer.body["id"])}`)).toMatchObject({ status: 404 });
  });

  test("can be signed as specified by Standard Webhooks", async () => {
    const id = randomUUID();
    const body = JSON.stringify({ type: "a.b", data: {} });
    const request = signedV1(producer, { id, body, sentAt: seconds(api) });
    expect(await sendSigned(api, request)).toMatchObject({ status: 202 });
    expect(await sendSigned(api, request)).toMatchObject({ status: 200, body: { duplicate: true } });
  });

  test("can be a batch, whose id the signature covers", async () => {
    const batch = { id: randomUUID(), events: [newEvent(), newEvent(), { type: "?" }] };
    const request = signed(producer, batch, seconds(api));
    const answer = await sendSigned(api, request);
    expect(answer).toMatchObject({
      status: 202,
      body: { data: [{ index: 0, type: "a.b" }, { index: 1 }, { index: 2, error: { status: 422 } }] },
    });
    expect(await sendSigned(api, request)).toMatchObject({ status: 200, body: { duplicate: true } });
    const changed = { ...batch, events: [newEvent()] };
    expectRefusal(await sendSigned(api, signed(producer, changed, seconds(api))), 409, "REPLAY_CONFLICT");
  });

  test("can carry a token of the same credential, but no other", async () => {
    const { body, headers } = signed(producer, newEvent(), seconds(api));
    const together = { body, headers: { ...headers, ...bearer(producer.tenant.token) } };
    expect(await sendSigned(api, together)).toMatchObject({ status: 202 });
    const foreign = { body, headers: { ...headers, ...bearer(other.tenant.token) } };
    expectRefusal(await sendSigned(api, foreign), 401, "SIGNATURE_INVALID");
    const broken = { body, headers: { ...headers, authorization: "Bearer x.y.z" } };
    expectRefusal(await sendSigned(api, broken), 401, "TOKEN_INVALID");
  });
});

/** Repeats a request until it starts and ends within the same second. */
async function withinOneSecond(send: (now: number) => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const now = seconds(api);
    const answer = await send(now);
    if (seconds(api) === now) {
      return answer;
    }
  }
}

describe("a payload", () => {
  test.each([
    ["exactly 300 s old is accepted", 300, 202, undefined],
    ["301 s old is rejected", 301, 401, "PAYLOAD_EXPIRED"],
    ["60 s in the future is accepted", -60, 202, undefined],
    ["61 s in the future is rejected", -61, 401, "TIMESTAMP_MISMATCH"],
  ])("%s", async (_what, age, status, code) => {
    // The second may change between signature and check, which makes the payload older.
    const answer = await withinOneSecond(
      async (now) => await sendSigned(api, signed(producer, newEvent(), now - age)),
    );
    expect({ status: answer.status, code: answer.body["code"] }).toEqual({ status, code });
  });
});

type Change = (parts: SignedParts) => SignedParts;

/** Changes some headers of the request; `null` removes one. */
function withHeaders(changes: Readonly<Record<string, string | null>>): Change {
  return ({ body, headers }) => {
    const merged = Object.entries({ ...headers, ...changes });
    return { body, headers: Object.fromEntries(merged.filter(([, value]) => value !== null)) as never };
  };
}

const HEX = "0".repeat(64);
const REFUSALS: Readonly<Record<string, readonly [Change, number, string]>> = {
  "no key id": [withHeaders({ "x-service-key-id": null }), 400, "INVALID_REQUEST"],
  "an invalid key id": [withHeaders({ "x-service-key-id": "crd_x" }), 400, "INVALID_REQUEST"],
  "two key ids": [
    withHeaders({ "x-service-key-id": "crd_000000000000000000000000, crd_000000000000000000000000" }),
    400,
    "INVALID_REQUEST",
  ],
  "the id of another resource": [
    withHeaders({ "x-service-key-id": "ten_000000000000000000000000" }),
    400,
    "INVALID_REQUEST",
  ],
  "an unknown key": [
    withHeaders({ "x-service-key-id": "crd_000000000000000000000000" }),
    401,
    "SIGNATURE_INVALID",
  ],
  "no signature": [withHeaders({ "x-service-signature-256": null }), 400, "INVALID_REQUEST"],
  "no timestamp": [withHeaders({ "x-service-timestamp": null }), 400, "INVALID_REQUEST"],
  "a fractional timestamp": [withHeaders({ "x-service-timestamp": "1763650000.5" }), 400, "INVALID_REQUEST"],
  "a signed timestamp": [withHeaders({ "x-service-timestamp": "+1763650000" }), 400, "INVALID_REQUEST"],
  "an upper-case signature": [
    withHeaders({ "x-service-signature-256": `sha256=${"A".repeat(64)}` }),
    400,
    "INVALID_REQUEST",
  ],
  "a truncated signature": [
    withHeaders({ "x-service-signature-256": `sha256=${HEX.slice(2)}` }),
    400,
    "INVALID_REQUEST",
  ],
  "two signatures in one header": [
    withHeaders({ "x-service-signature-256": `sha256=${HEX}, sha256=${HEX}` }),
    400,
    "INVALID_REQUEST",
  ],
  "a wrong signature": [
    withHeaders({ "x-service-signature-256": `sha256=${HEX}` }),
    401,
    "SIGNATURE_INVALID",
  ],
  "a different event id in a header": [
    withHeaders({ "x-service-event-id": "else" }),
    401,
    "SIGNATURE_INVALID",
  ],
  "a different time in the header": [
    withHeaders({ "x-service-timestamp": String(Math.floor(Date.now() / 1_000) - 5) }),
    401,
    "TIMESTAMP_MISMATCH",
  ],
  "one extra byte": [({ body, headers }) => ({ body: `${body} `, headers }), 401, "SIGNATURE_INVALID"],
  "an Idempotency-Key": [withHeaders({ "idempotency-key": "k" }), 400, "INVALID_REQUEST"],
  "a wrong media type": [withHeaders({ "content-type": "text/plain" }), 415, "UNSUPPORTED_MEDIA_TYPE"],
  "a content encoding": [withHeaders({ "content-encoding": "gzip" }), 415, "UNSUPPORTED_MEDIA_TYPE"],
};

test.each(Object.entries(REFUSALS))(
  "a request with %s is rejected, and nothing is published",
  async (_what, row) => {
    const [change, status, code] = row;
    const event = newEvent();
    const answer = await sendSigned(api, change(signed(producer, event, seconds(api))));
    expectRefusal(answer, status, code);
    expect(await eventsOf(event.id)).toBe(0);
  },
);

/** Bodies that are correctly signed but invalid. */
const SIGNED_REFUSALS: Readonly<Record<string, readonly [string, number, string]>> = {
  "a repeated member": [
    `{"id":"x","type":"a.b","type":"c.d","data":{},"sent_at":NOW}`,
    400,
    "INVALID_REQUEST",
  ],
  "invalid JSON": [`hello`, 401, "TIMESTAMP_MISMATCH"],
  "no time in the body": [`{"id":"x","type":"a.b","data":{}}`, 401, "TIMESTAMP_MISMATCH"],
  "a time as a string": [`{"id":"x","type":"a.b","data":{},"sent_at":"NOW"}`, 401, "TIMESTAMP_MISMATCH"],
  "no id": [`{"type":"a.b","data":{},"sent_at":NOW}`, 422, "VALIDATION_FAILED"],
  "an id that is not a string": [`{"id":7,"type":"a.b","data":{},"sent_at":NOW}`, 422, "VALIDATION_FAILED"],
  "an unknown member": [`{"id":"x","type":"a.b","data":{},"sent_at":NOW,"x":1}`, 422, "VALIDATION_FAILED"],
};

test.each(Object.entries(SIGNED_REFUSALS))("a signed body with %s is rejected", async (_what, row) => {
  const [text, status, code] = row;
  const now = seconds(api);
  const body = text.replaceAll("NOW", String(now));
  const sha256 = `sha256=${createHmac("sha256", producer.secret).update(body).digest("hex")}`;
  const { headers } = signed(producer, newEvent(), now);
  const answer = await sendSigned(api, { body, headers: { ...headers, "x-service-signature-256": sha256 } });
  expectRefusal(answer, status, code);
});

test("sent_at and a batch's id are rejected without a signature", async () => {
  const event = { type: "a.b", data: {}, sent_at: 1 };
  expectRefusal(await producer.tenant.post("/v1/events", event), 422, "VALIDATION_FAILED");
  const batch = { id: "x", events: [{ type: "a.b", data: {} }] };
  expectRefusal(await producer.tenant.post("/v1/events", batch), 422, "VALIDATION_FAILED");
});

test("other routes accept no signature", async () => {
  const { headers } = signed(producer, newEvent(), seconds(api));
  const answer = await api.request("/v1/credentials", { method: "POST", body: "{}", headers });
  expectRefusal(answer, 401, "TOKEN_MISSING");
});

test("a body beyond its limit is rejected before its signature is checked", async () => {
  const event = newEvent({ data: { text: "x".repeat(4_194_304) } });
  const { body, headers } = signed(producer, event, seconds(api));
  const bad = { body, headers: { ...headers, "x-service-signature-256": `sha256=${HEX}` } };
  expectRefusal(await sendSigned(api, bad), 413, "PAYLOAD_TOO_LARGE");
  const single = newEvent({ data: { text: "x".repeat(262_144) } });
  expectRefusal(await sendSigned(api, signed(producer, single, seconds(api))), 413, "PAYLOAD_TOO_LARGE");
});

describe("the replay store", () => {
  test("accepts one of a hundred concurrent requests", async () => {
    const event = newEvent();
    const request = signed(producer, event, seconds(api));
    const answers = await Promise.all(
      Array.from({ length: 100 }, async () => await sendSigned(api, request)),
    );
    const statuses = answers.map(({ status }) => status).sort((left, right) => left - right);
    expect(statuses).toEqual([...Array.from({ length: 99 }, () => 200), 202]);
    expect(
      answers.filter(({ status }) => status === 200).every(({ text }) => text === '{"duplicate":true}'),
    ).toBe(true);
    expect(await eventsOf(event.id)).toBe(1);
  });

  test("recognizes an event that is signed again, and rejects another one with its id", async () => {
    const event = newEvent();
    const now = seconds(api);
    expect(await sendSigned(api, signed(producer, event, now - 10))).toMatchObject({ status: 202 });
    const again = await sendSigned(api, signed(producer, event, now));
    expect(again).toMatchObject({ status: 200, body: { duplicate: true } });
    const another = { ...event, data: { n: 2 } };
    expectRefusal(await sendSigned(api, signed(producer, another, now)), 409, "REPLAY_CONFLICT");
    expect(await eventsOf(event.id)).toBe(1);
  });

  test("does not confuse an id with the same id of another key, or with an Idempotency-Key", async () => {
    const event = newEvent();
    const now = seconds(api);
    expect(await sendSigned(api, signed(producer, event, now))).toMatchObject({ status: 202 });
    expect(await sendSigned(api, signed(other, event, now))).toMatchObject({ status: 202 });
    const keyed = await producer.tenant.post(
      "/v1/events",
      { ...newEvent(), type: "c.d" },
      { "idempotency-key": event.id },
    );
    expect(keyed).toMatchObject({ status: 202 });
    expect(await eventsOf(event.id)).toBe(2);
  });

  test("keeps an id across a rotation of the secret", async () => {
    const own = await createProducer(api);
    const event = newEvent();
    expect(await sendSigned(api, signed(own, event, seconds(api)))).toMatchObject({ status: 202 });
    const secret = await makeSigningSecret(own.tenant);
    const again = signed({ ...own, secret }, event, seconds(api));
    expect(await sendSigned(api, again)).toMatchObject({ status: 200, body: { duplicate: true } });
  });
});

test("a signature is invalid with another tenant's key id", async () => {
  const now = seconds(api);
  const forged = signed({ keyId: other.keyId, secret: producer.secret }, newEvent(), now);
  expectRefusal(await sendSigned(api, forged), 401, "SIGNATURE_INVALID");
  const moved = signed(producer, newEvent(), now);
  const elsewhere = { ...moved, headers: { ...moved.headers, "x-service-key-id": other.keyId } };
  expectRefusal(await sendSigned(api, elsewhere), 401, "SIGNATURE_INVALID");
  const named = newEvent({ tenant_id: other.tenant.tenantId });
  expectRefusal(await sendSigned(api, signed(producer, named, now)), 403, "SCOPE_VIOLATION");
});

test("a credential without events:publish cannot publish with its signature either", async () => {
  const own = await createProducer(api, ["credentials:write"]);
  expectRefusal(await sendSigned(api, signed(own, newEvent(), seconds(api))), 403, "SCOPE_VIOLATION");
});

describe("a signature becomes invalid", () => {
  const send = async (own: Producer) => await sendSigned(api, signed(own, newEvent(), seconds(api)));

  test("when its credential is revoked", async () => {
    const own = await createProducer(api);
    expect(await send(own)).toMatchObject({ status: 202 });
    await own.tenant.post(`/v1/credentials/${own.keyId}/revoke`, {});
    expectRefusal(await send(own), 401, "SIGNATURE_INVALID");
  });

  test("when its principal is revoked, or while its tenant is suspended", async () => {
    const own = await createProducer(api);
    await api.admin("POST", `/tenants/${own.tenant.tenantId}/suspend`, {});
    expectRefusal(await send(own), 401, "SIGNATURE_INVALID");
    await api.admin("POST", `/tenants/${own.tenant.tenantId}/resume`, {});
    await expect.poll(async () => (await send(own)).status, { timeout: 50_000 }).toBe(202);
    await api.admin("POST", `/principals/${own.tenant.principalId}/revoke`, {});
    expectRefusal(await send(own), 401, "SIGNATURE_INVALID");
  });

  test("when its credential is replaced and the overlap has ended", async () => {
    const own = await createProducer(api);
    const body = { replaces: own.keyId, overlap_seconds: 0 };
    expect(await own.tenant.post("/v1/credentials", body)).toMatchObject({ status: 201 });
    expectRefusal(await send(own), 401, "SIGNATURE_INVALID");
  });
});
