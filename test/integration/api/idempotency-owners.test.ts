/** An Idempotency-Key belongs to one principal on every route and is stored as a digest (decision 9). */
import { createHash, randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { accessToken, provision } from "#test/support/factories.ts";
import { asTenant, createEndpoint, createTenant, type Json, sql, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = [
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:publish",
  "credentials:read",
  "credentials:write",
  "credentials:revoke",
  "portal:sign_in",
  "ssf:manage",
  "ssf:read",
];
const ENDPOINT = { url: "https://example.com/hook", events: ["a.b"] };
const withKey = (key: string): Record<string, string> => ({ "idempotency-key": key });
const isReplay = ({ headers }: Answer): boolean => headers.get("idempotent-replayed") === "true";

let alice: Tenant;
let bob: Tenant;

beforeAll(async () => {
  alice = await createTenant(api, SCOPES);
  const client = await provision(api, { scopes: SCOPES, tenantId: alice.tenantId });
  bob = asTenant(api, client, await accessToken(api, client));
});

const STREAM = `ssf_${"0".repeat(24)}`;
const OF_STREAM = { stream_id: STREAM, subject: { format: "opaque", id: "ten_1" } };

/** Bodies for the routes that need one to reach the key check; the others take an empty body. */
const BODIES: Readonly<Record<string, () => Json>> = {
  "/v1/webhooks/endpoints": () => ENDPOINT,
  "/v1/webhooks/endpoints/{id}/replay-missing": () => ({ since: new Date().toISOString(), dry_run: true }),
  "/v1/webhooks/event-types": () => ({ name: `a.t${randomUUID().replaceAll("-", "_")}` }),
  "/v1/revocations": () => ({ target: "cl_x3r4cWlHYkEdLi3BrhchLY1J" }),
  "/v1/webhooks/replays": () => ({ filter: { last_error: "timeout" }, dry_run: true }),
  "/v1/webhooks/dlq/replay": () => ({ filter: { last_error: "timeout" }, dry_run: true }),
  "/v1/webhooks/endpoints/{id}/secret/rotate": () => ({ overlap_seconds: 0 }),
  "/v1/credentials/{id}/signing-secret": () => ({ overlap_seconds: 0 }),
  "/v1/events": () => ({ type: "a.b", data: {} }),
  "/v1/credentials/{id}/signing-secret/revoke": () => ({ version: 1 }),
  "/v1/ssf/status": () => ({ stream_id: STREAM, status: "paused" }),
  "/v1/ssf/subjects/add": () => OF_STREAM,
  "/v1/ssf/subjects/remove": () => OF_STREAM,
  "/v1/ssf/verify": () => ({ stream_id: STREAM }),
};

/** Returns the path with an id of the resource that it needs. */
async function pathOf(path: string): Promise<string> {
  const { id: endpoint } = path.includes("/endpoints/{id}") ? await createEndpoint(api, alice) : { id: "" };
  const spare = path.startsWith("/v1/credentials/{id}") ? await alice.post("/v1/credentials", {}) : undefined;
  const known = spare === undefined ? endpoint : String(spare.body["id"]);
  const noun = path.includes("/replays/") ? "rpl" : "dlv";
  return path
    .replace("{stream_id}", STREAM)
    .replace("{id}", known === "" ? `${noun}_${"0".repeat(24)}` : known);
}

/** Returns the keys stored for the tenant on a route. */
async function keptKeys(path: string): Promise<string[]> {
  const route = `POST ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`;
  const rows = await sql<{ key: string }>(
    api,
    `SELECT encode(key_digest, 'hex') AS key FROM idempotent_answers WHERE owner_id = $1 AND route = $2
      UNION ALL SELECT route || ' ' || key FROM idempotency_keys WHERE tenant_id = $1 AND (route = $2 OR route LIKE $2 || ' %')`,
    [alice.tenantId, route],
  );
  return rows.map(({ key }) => key);
}

test("on every route with keys, equal keys of two principals are separate, and neither is stored in plain text", async () => {
  const { paths } = (await api.request("/openapi.json")).body as {
    paths: Record<string, { post?: { parameters?: { name: string }[] } }>;
  };
  const taking = Object.entries(paths)
    .filter(([, { post }]) => post?.parameters?.some(({ name }) => name === "idempotency-key") === true)
    .map(([path]) => path);
  expect(taking.length).toBeGreaterThan(20);
  for (const template of taking) {
    const [key, path, body] = [randomUUID(), await pathOf(template), BODIES[template]?.() ?? {}];
    const before = await keptKeys(template);
    const answers = [await alice.post(path, body, withKey(key)), await bob.post(path, body, withKey(key))];
    const statuses = answers.map(({ status }) => status);
    const reused = answers.filter((answer) => isReplay(answer) || answer.text.includes("IDEMPOTENCY_KEY"));
    expect({ template, statuses, reused }).toEqual({ template, statuses, reused: [] });
    expect({ template, bad: statuses.filter((status) => [400, 422].includes(status)) }).toEqual({
      template,
      bad: [],
    });
    const kept = (await keptKeys(template)).filter((one) => !before.includes(one));
    expect({ template, statuses, kept: new Set(kept).size }).toEqual({ template, statuses, kept: 2 });
    const digest = createHash("sha256").update(key).digest("hex");
    expect({ template, clear: kept.filter((one) => one.includes(key) || one === digest) }).toEqual({
      template,
      clear: [],
    });
  }
});

test("a principal never sees the secret of another principal's endpoint under the same key", async () => {
  const first = await alice.post("/v1/webhooks/endpoints", ENDPOINT, withKey("create-endpoint-1"));
  const second = await bob.post("/v1/webhooks/endpoints", ENDPOINT, withKey("create-endpoint-1"));
  expect([first.status, second.status]).toEqual([201, 201]);
  expect([isReplay(first), isReplay(second)]).toEqual([false, false]);
  expect(second.body["id"]).not.toBe(first.body["id"]);
  expect(second.body["secret"]).not.toBe(first.body["secret"]);
});

test("an operator's key belongs to that operator alone", async () => {
  const made = await api.admin("POST", "/operators", { name: randomUUID(), role: "provision" });
  const token = await api.admin("POST", `/operators/${String(made.body["id"])}/tokens`, {});
  const key = randomUUID();
  const create = async (bearer: string): Promise<Answer> => {
    const response = await fetch(`${api.adminUrl}/admin/v1/tenants`, {
      method: "POST",
      headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json", ...withKey(key) },
      body: JSON.stringify({ name: "x", region: "eu" }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: JSON.parse(text) as Json };
  };
  const [first, second] = [await create(api.operatorToken), await create(String(token.body["token"]))];
  expect([first.status, second.status, isReplay(second)]).toEqual([201, 201, false]);
  expect(second.body["id"]).not.toBe(first.body["id"]);
});

describe("a key stored by version 0.2, while both versions run", () => {
  test("identifies the same event", async () => {
    const event = { type: "a.b", data: { of: "0.2" } };
    const first = await alice.post("/v1/events", event, withKey("old"));
    expect(first.status).toBe(202);
    await sql(
      api,
      "UPDATE idempotency_keys SET route = 'POST /v1/events', key = 'old' WHERE resource_id = $1",
      [first.body["id"]],
    );
    const again = await alice.post("/v1/events", event, withKey("old"));
    expect([again.text, isReplay(again)]).toEqual([first.text, true]);
    expect((await alice.post("/v1/events", { ...event, data: {} }, withKey("old"))).status).toBe(409);
  });

  test("identifies the same endpoint", async () => {
    const first = await alice.post("/v1/webhooks/endpoints", ENDPOINT, withKey("old"));
    await sql(
      api,
      "UPDATE idempotency_keys SET route = 'POST /v1/webhooks/endpoints', key = 'old' WHERE resource_id = $1",
      [first.body["id"]],
    );
    const again = await alice.post("/v1/webhooks/endpoints", ENDPOINT, withKey("old"));
    expect([again.text, isReplay(again)]).toEqual([first.text, true]);
  });
});
