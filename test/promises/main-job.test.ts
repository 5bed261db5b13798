/**
 * The service's main purpose, through HTTP alone. An operator creates a client, the client registers a receiver, and events
 * reach it signed. Failed ones wait as dead letters until they are replayed. Every response is checked in full.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Webhook } from "standardwebhooks";
import { type Answer, useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import {
  type ReceivedRequest,
  type Receiver,
  startReceiver,
  verifyReceived,
} from "../support/receiver-server.ts";
import { anId, anInstant, asTenant, type Json, rows, type Tenant } from "../support/tenant.ts";

const ATTEMPTS = 17;
const SCOPES = ["events:publish", "events:read", "webhooks:read", "webhooks:replay", "webhooks:write"];
const api = useTestApi({ worker: true, environment: { SIGNET_RETRY_WINDOW_MS: "2000" } });
let receiver: Receiver;
let client: Tenant;
let endpointId: string;
let secret: string;

beforeAll(async () => {
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver.close();
});

/** Checks that the response has exactly these members. */
function expectAnswer(answer: Answer, status: number, body: Json): void {
  expect(answer.body).toEqual(body);
  expect(answer.status).toBe(status);
  expect(answer.headers.get("content-type")).toMatch(/^application\/json; ?charset=utf-8$/i);
  expect(answer.headers.get("x-request-id")).toMatch(/^req_[0-9a-hjkmnp-tv-z]{24}$/);
}

/** Checks both signatures of a request, with Signet's library and with the stock one of Standard Webhooks. */
function expectSigned(request: ReceivedRequest | undefined): Json {
  if (request === undefined) {
    throw new Error("nothing was received");
  }
  const { payload } = verifyReceived(request, [secret]);
  const headers = request.headers as Record<string, string>;
  expect(new Webhook(secret).verify(request.rawBody, headers)).toEqual(payload);
  expect(request).toMatchObject({ method: "POST", path: "/hook?tenant=acme" });
  expect(headers).toMatchObject({
    "content-type": "application/json",
    "user-agent": expect.stringMatching(/^Signet\/1 \(\+http/),
    "x-service-signature-256": expect.stringMatching(/^sha256=[0-9a-f]{64}$/),
    "x-service-timestamp": headers["webhook-timestamp"],
    "x-service-event-id": headers["webhook-id"],
  });
  return payload as Json;
}

const delivery = (more: Json): Json => ({
  id: anId("delivery"),
  event_id: anId("event"),
  event_type: "inference.completed",
  endpoint_id: endpointId,
  state: "DELIVERED",
  cycle: 1,
  attempt_count: 1,
  next_attempt_at: null,
  last_status: 200,
  last_error: null,
  workflow_id: expect.stringMatching(/^(dlv|bat)_[0-9a-hjkmnp-tv-z]{24}$/),
  created_at: anInstant(),
  delivered_at: anInstant(),
  dead_lettered_at: null,
  expires_at: null,
  ...more,
});

async function published(data: Json): Promise<Json> {
  const answer = await client.post("/v1/events", { type: "inference.completed", data });
  expectAnswer(answer, 202, {
    id: anId("event"),
    type: "inference.completed",
    created_at: anInstant(),
    deliveries: 1,
  });
  return answer.body;
}

/** Waits until the delivery of an event matches. */
async function untilDelivery(eventId: unknown, wanted: Json): Promise<Json> {
  return await eventually(async () => {
    const [found] = rows(await client.get(`/v1/webhooks/deliveries?event_id=${String(eventId)}`));
    const same = Object.entries(wanted).every(([name, value]) => found?.[name] === value);
    return same ? found : undefined;
  }, JSON.stringify(wanted));
}

test("an operator creates a tenant, a role, a principal and a credential", async () => {
  const tenant = await api.admin("POST", "/tenants", { name: "acme", region: "eu" });
  expect(tenant).toMatchObject({
    status: 201,
    body: { id: anId("tenant"), name: "acme", region: "eu", state: "ACTIVE", created_at: anInstant() },
  });
  const tenantId = String(tenant.body["id"]);
  const role = await api.admin("POST", `/tenants/${tenantId}/roles`, { name: "sender", scopes: SCOPES });
  expect(role).toMatchObject({ status: 201, body: { id: anId("role"), name: "sender", scopes: SCOPES } });
  const principal = await api.admin("POST", `/tenants/${tenantId}/principals`, {
    name: "service",
    role_id: role.body["id"],
    region: "eu",
    environment: "development",
  });
  expect(principal).toMatchObject({ status: 201, body: { id: anId("principal"), scopes: SCOPES } });
  const principalId = String(principal.body["id"]);
  const credential = await api.admin("POST", `/principals/${principalId}/credentials`, {});
  expect(credential).toMatchObject({
    status: 201,
    body: {
      id: anId("credential"),
      client_id: expect.stringMatching(/^cl_[0-9A-Za-z]{24}$/),
      client_secret: expect.stringMatching(/^sgn_test_sk_[0-9A-Za-z]{49}$/),
      version: 1,
      created_at: anInstant(),
    },
  });

  const token = await api.token({
    client_id: credential.body["client_id"],
    client_secret: credential.body["client_secret"],
    grant_type: "client_credentials",
  });
  const jwt = String(token.body["access_token"]);
  expectAnswer(token, 200, {
    access_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
    token_type: "Bearer",
    expires_in: 900,
    scope: SCOPES.join(" "),
    token: jwt,
  });
  client = asTenant(
    api,
    {
      tenantId,
      roleId: String(role.body["id"]),
      principalId,
      credentialId: String(credential.body["id"]),
      clientId: String(credential.body["client_id"]),
      clientSecret: String(credential.body["client_secret"]),
    },
    jwt,
  );
});

test("the client registers its receiver, which is PENDING until it acknowledges the signed ping", async () => {
  // While the receiver refuses, the endpoint stays PENDING.
  receiver.answer([{ kind: "answer", status: 204 }]);
  const url = `${receiver.url}/hook?tenant=acme`;
  const registered = await client.post("/v1/webhooks/endpoints", {
    url,
    events: ["inference.completed"],
    metadata: { route: "eu-1" },
    description: "acme's receiver",
  });
  endpointId = String(registered.body["id"]);
  secret = String(registered.body["secret"]);
  const endpoint = {
    id: anId("endpoint"),
    url,
    events: ["inference.completed"],
    metadata: { route: "eu-1" },
    description: "acme's receiver",
    filter: null,
    headers: {},
    authentication: null,
    require_echo: false,
    rate_limit: null,
    state: "PENDING",
    disabled_reason: null,
    health: {
      status: "unknown",
      since: null,
      failing_since: null,
      last_error: null,
      last_hour: { since: anInstant(), attempts: 0, succeeded: 0 },
      retrying: 0,
      dead_letters: 0,
    },
    created_at: anInstant(),
    updated_at: anInstant(),
  };
  const verification = {
    workflow_id: `verify/${endpointId}/1`,
    attempts: 0,
    last_error: null,
    next_attempt_at: null,
    verified_at: null,
    verified_by: null,
  };
  expectAnswer(registered, 201, {
    ...endpoint,
    secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    verification,
  });
  expect(registered.headers.get("cache-control")).toBe("no-store");

  const path = `/v1/webhooks/endpoints/${endpointId}`;
  const refused = await eventually(async () => {
    const answer = await client.get(path);
    return (answer.body["verification"] as { attempts: number }).attempts === 1 ? answer : undefined;
  }, "the first ping");
  expectAnswer(refused, 200, {
    ...endpoint,
    verification: { ...verification, attempts: 1, last_error: "status", next_attempt_at: anInstant() },
  });

  receiver.answer([{ kind: "answer", status: 200 }]);
  const again = await client.post(`${path}/verify`);
  expect(again).toMatchObject({ status: 202, body: { id: endpointId, state: "PENDING" } });
  const active = await eventually(async () => {
    const answer = await client.get(path);
    return answer.body["state"] === "ACTIVE" ? answer : undefined;
  }, "the endpoint to be ACTIVE");
  expectAnswer(active, 200, {
    ...endpoint,
    state: "ACTIVE",
    verification: { ...verification, attempts: 2, verified_at: anInstant(), verified_by: "status" },
  });
  expectAnswer(await client.get("/v1/webhooks/endpoints"), 200, { data: [active.body], next_cursor: null });

  const pings = receiver.requests.map(expectSigned);
  expect(pings).toHaveLength(2);
  expect(pings[0]).toEqual({
    id: anId("event"),
    type: "ping",
    source: "service",
    timestamp: anInstant(),
    sent_at: expect.any(Number),
    attempt: 1,
    endpoint_id: endpointId,
    delivery_id: anId("delivery"),
    metadata: { route: "eu-1" },
    data: { endpoint_id: endpointId, challenge: expect.stringMatching(/^[\w-]{43}$/) },
  });
  expect(pings[0]?.["id"]).not.toBe(pings[1]?.["id"]);
});

test("an event reaches the receiver, signed, and is DELIVERED", async () => {
  receiver.clear();
  const event = await published({ n: 1 });
  const delivered = await untilDelivery(event["id"], { state: "DELIVERED" });
  expect(delivered).toEqual(delivery({ event_id: event["id"] }));
  expectAnswer(await client.get(`/v1/webhooks/deliveries/${String(delivered["id"])}`), 200, delivered);
  expectAnswer(await client.get(`/v1/webhooks/deliveries/${String(delivered["id"])}/attempts`), 200, {
    data: [
      {
        id: anId("attempt"),
        cycle: 1,
        attempt: 1,
        started_at: anInstant(),
        duration_ms: expect.any(Number),
        status: 200,
        error: null,
        response_body: null,
      },
    ],
    next_cursor: null,
  });
  expectAnswer(await client.get(`/v1/events/${String(event["id"])}`), 200, {
    id: event["id"],
    type: "inference.completed",
    source_id: null,
    content_erased_at: null,
    occurred_at: event["created_at"],
    created_at: event["created_at"],
    deliveries: 1,
    data: { n: 1 },
  });

  const [request] = receiver.requests;
  expect(receiver.requests).toHaveLength(1);
  expect(expectSigned(request)).toEqual({
    id: event["id"],
    type: "inference.completed",
    timestamp: event["created_at"],
    sent_at: Number(request?.headers["x-service-timestamp"]),
    attempt: 1,
    endpoint_id: endpointId,
    delivery_id: delivered["id"],
    metadata: { route: "eu-1" },
    data: { n: 1 },
  });
  expect(request?.headers).toMatchObject({
    "x-service-event-id": event["id"],
    "x-service-event-type": "inference.completed",
    "x-service-delivery-id": delivered["id"],
    "x-service-attempt": "1",
  });
});

test("a delivery that fails 17 times is a dead letter, and DELIVERED once it is replayed", async () => {
  receiver.clear();
  receiver.answer([{ kind: "answer", status: 500, body: "no" }]);
  const event = await published({ n: 2 });
  const dead = await untilDelivery(event["id"], { state: "DEAD_LETTERED" });
  const id = String(dead["id"]);
  const failed = delivery({
    event_id: event["id"],
    state: "DEAD_LETTERED",
    attempt_count: ATTEMPTS,
    last_status: 500,
    last_error: "status",
    delivered_at: null,
    dead_lettered_at: anInstant(),
    expires_at: anInstant(),
  });
  expect(dead).toEqual(failed);
  expect(receiver.requests.map((request) => expectSigned(request)["attempt"])).toEqual(
    Array.from({ length: ATTEMPTS }, (_, index) => index + 1),
  );
  expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"]))).toEqual(
    new Set([event["id"]]),
  );

  const letter = {
    ...dead,
    reason: "attempts_exhausted",
    event: {
      id: event["id"],
      type: "inference.completed",
      source_id: null,
      content_erased_at: null,
      occurred_at: event["created_at"],
      created_at: event["created_at"],
      deliveries: 1,
      data: { n: 2 },
    },
  };
  expectAnswer(await client.get("/v1/webhooks/dlq"), 200, { data: [letter], next_cursor: null });
  expectAnswer(await client.get(`/v1/webhooks/dlq/${id}`), 200, letter);
  const week = Date.parse(String(dead["expires_at"])) - Date.parse(String(dead["dead_lettered_at"]));
  expect(week).toBe(7 * 86_400_000);

  receiver.clear();
  receiver.answer([{ kind: "answer" }]);
  const replayed = await client.post(`/v1/webhooks/dlq/${id}/replay`);
  expect(replayed).toMatchObject({ status: 202, body: { id, cycle: 2, dead_lettered_at: null } });
  expect(Object.keys(replayed.body).sort()).toEqual(Object.keys(failed).sort());
  expect(await untilDelivery(event["id"], { state: "DELIVERED" })).toEqual(
    delivery({ id, event_id: event["id"], cycle: 2 }),
  );
  expect(receiver.requests.map((request) => expectSigned(request)["attempt"])).toEqual([1]);
  expectAnswer(await client.get("/v1/webhooks/dlq"), 200, { data: [], next_cursor: null });
  expect(await client.get(`/v1/webhooks/dlq/${id}`)).toMatchObject({
    status: 404,
    body: { code: "NOT_FOUND" },
  });
  expect(await client.post(`/v1/webhooks/dlq/${id}/replay`)).toMatchObject({
    status: 409,
    body: { code: "INVALID_STATE" },
  });
  const attempts = rows(await client.get(`/v1/webhooks/deliveries/${id}/attempts`));
  expect(attempts.map(({ cycle, attempt, status }) => [cycle, attempt, status])).toEqual([
    ...Array.from({ length: ATTEMPTS }, (_, index) => [1, index + 1, 500]),
    [2, 1, 200],
  ]);
  expect(attempts[0]).toMatchObject({ error: "status", response_body: "no" });
});
