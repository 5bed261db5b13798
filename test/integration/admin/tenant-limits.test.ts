/** Limits per tenant: from the settings, or set by operators for one tenant. */
import { beforeEach, describe, expect, test } from "vitest";
import { publishRefusals } from "#http/rate-limits/publish-refusals.ts";
import { createLogger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { type CommandRun, runSignet } from "#test/support/command-line.ts";
import { createTenant, expectRefusal, type Json, type Tenant, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

const api = useTestApi({
  environment: { SIGNET_ENDPOINTS_PER_TENANT: "2", SIGNET_EVENT_TYPES_PER_TENANT: "2" },
});
let tenant: Tenant;
let path: string;

beforeEach(async () => {
  tenant = await createTenant(api, [...WEBHOOK_SCOPES, "credentials:read", "credentials:write"]);
  path = `/tenants/${tenant.tenantId}/limits`;
});

const register = async (owner: Tenant): Promise<Answer> =>
  await owner.post("/v1/webhooks/endpoints", { url: "http://127.0.0.1:19999/hook", events: ["a.b"] });

async function change(limits: Json): Promise<Answer> {
  return await api.admin("PATCH", path, limits);
}

test("a tenant has the default limits until an operator sets its own, and again when they are removed", async () => {
  expect((await api.admin("GET", path)).body).toMatchObject({
    limits: { endpoints: 2, api_requests_per_second: 0, credentials_per_principal: 100 },
    own: {},
  });
  expect(await change({ endpoints: 1, api_requests_per_second: 50 })).toMatchObject({
    status: 200,
    body: { limits: { endpoints: 1, api_requests_per_second: 50 }, own: { endpoints: 1 } },
  });
  expect((await change({ endpoints: null })).body).toMatchObject({
    limits: { endpoints: 2 },
    own: { api_requests_per_second: 50 },
  });
  const trail = await api.admin("GET", `/audit?tenant_id=${tenant.tenantId}`);
  const types = (trail.body["data"] as { type: string }[]).map(({ type }) => type);
  expect(types.filter((type) => type === "tenant.limits_changed")).toHaveLength(2);
});

test.each<[string, Json]>([
  ["an unknown limit", { unicorns: 1 }],
  ["a negative limit", { endpoints: -1 }],
  ["a fractional limit", { endpoints: 1.5 }],
  ["a limit above the maximum", { endpoints: 10_001 }],
  ["text", { endpoints: "1" }],
])("%s is refused", async (_what, body) => {
  expect(await api.admin("PATCH", path, body)).toMatchObject({ status: 422 });
});

test("limits of a tenant that does not exist are a 404", async () => {
  const absent = "/tenants/ten_000000000000000000000000/limits";
  expect(await api.admin("GET", absent)).toMatchObject({ status: 404 });
  expect(await api.admin("PATCH", absent, { endpoints: 1 })).toMatchObject({ status: 404 });
});

describe("counts", () => {
  test("of endpoints end with 422 LIMIT_EXCEEDED, also with an operator's limit", async () => {
    expect(await register(tenant)).toMatchObject({ status: 201 });
    expect(await register(tenant)).toMatchObject({ status: 201 });
    expectRefusal(await register(tenant), 422, "LIMIT_EXCEEDED");
    await change({ endpoints: 3 });
    expect(await register(tenant)).toMatchObject({ status: 201 });
    expectRefusal(await register(tenant), 422, "LIMIT_EXCEEDED");
    const other = await createTenant(api);
    await register(other);
    await register(other);
    expectRefusal(await register(other), 422, "LIMIT_EXCEEDED");
  });

  test("of event types end with 422 LIMIT_EXCEEDED, by the setting or an operator's limit", async () => {
    const add = async (owner: Tenant, name: string): Promise<Answer> =>
      await owner.post("/v1/webhooks/event-types", { name });
    await change({ event_types: 3 });
    for (const name of ["a.a", "a.b", "a.c"]) {
      expect(await add(tenant, name)).toMatchObject({ status: 201 });
    }
    expectRefusal(await add(tenant, "a.d"), 422, "LIMIT_EXCEEDED");
    const other = await createTenant(api);
    expect(await add(other, "a.a")).toMatchObject({ status: 201 });
    expect(await add(other, "a.b")).toMatchObject({ status: 201 });
    expectRefusal(await add(other, "a.c"), 422, "LIMIT_EXCEEDED");
  });

  test("of credentials are per principal", async () => {
    await change({ credentials_per_principal: 2 });
    expect(await tenant.post("/v1/credentials", {})).toMatchObject({ status: 201 });
    expectRefusal(await tenant.post("/v1/credentials", {}), 422, "LIMIT_EXCEEDED");
  });
});

describe("rates", () => {
  test("report what is left, and when to retry", async () => {
    expect((await tenant.get("/v1/webhooks/endpoints")).headers.get("ratelimit")).toBeNull();
    await change({ api_requests_per_second: 2 });
    const first = await tenant.get("/v1/webhooks/endpoints");
    expect(first.headers.get("ratelimit-policy")).toBe('"api";q=2;w=1');
    expect(first.headers.get("ratelimit")).toMatch(/^"api";r=1;t=1$/);
    const burst = await Promise.all(
      Array.from({ length: 20 }, async () => await tenant.get("/v1/webhooks/endpoints")),
    );
    const refused = burst.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(10);
    for (const answer of refused) {
      expectRefusal(answer, 429, "RATE_LIMITED");
      expect(answer.headers.get("retry-after")).toBe("1");
      expect(answer.headers.get("ratelimit")).toBe('"api";r=0;t=1');
    }
  });

  test("of publishing count a batch's events, and the next request waits for them", async () => {
    await change({ published_events_per_second: 10 });
    const events = Array.from({ length: 1_000 }, () => ({ type: "a.b", data: {} }));
    expect(await tenant.post("/v1/events", { events })).toMatchObject({ status: 202 });
    const next = await tenant.post("/v1/events", { type: "a.b", data: {} });
    expectRefusal(next, 429, "RATE_LIMITED");
    expect(Number(next.headers.get("retry-after"))).toBeGreaterThan(80);
    expect(Number(next.headers.get("retry-after"))).toBeLessThanOrEqual(100);
    publishRefusals.report(createLogger({ level: "silent" }));
    const { values } = await metrics.refusedPublishes.get();
    expect(values.map(({ value }) => value)).toEqual([1 / 1_001]);
    // Reading still works.
    expect(await tenant.get("/v1/events")).toMatchObject({ status: 200 });
  });
});

test("the command line shows and changes limits", async () => {
  const signet = async (...line: string[]): Promise<CommandRun> => await runSignet(line, api.environment);
  const limits = ["tenant", "limits", tenant.tenantId];
  const changed = await signet(...limits, "--set", "endpoints=9", "event_types=10", "--json");
  expect(JSON.parse(changed.stdout)).toMatchObject({ own: { endpoints: 9, event_types: 10 } });
  expect(JSON.parse((await signet(...limits, "--set", "endpoints=default", "--json")).stdout)).toMatchObject({
    limits: { endpoints: 2 },
    own: { event_types: 10 },
  });
  expect((await signet(...limits)).stdout).toContain("limits");
  expect((await signet(...limits, "--set", "endpoints=many")).code).toBe(2);
});
