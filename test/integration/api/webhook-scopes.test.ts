/** Checks a token's scopes (contract 5.7) at every route of the running API. */
import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";
import { type ApiRoute, apiRoutes } from "#test/support/openapi.ts";
import { asTenant, createTenant, rows, sql, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();

/** Scopes as contract 5.7 gives them, not copied from the code. */
const WEBHOOK_ROUTES: Readonly<Record<string, string>> = {
  "POST /v1/webhooks/endpoints": "webhooks:write",
  "GET /v1/webhooks/endpoints": "webhooks:read",
  "GET /v1/webhooks/endpoints/{id}": "webhooks:read",
  "DELETE /v1/webhooks/endpoints/{id}": "webhooks:write",
  "PATCH /v1/webhooks/endpoints/{id}": "webhooks:write",
  "POST /v1/webhooks/endpoints/{id}/verify": "webhooks:write",
  "POST /v1/webhooks/endpoints/{id}/test": "webhooks:write",
  "POST /v1/webhooks/endpoints/{id}/grade": "webhooks:write",
  "GET /v1/webhooks/endpoints/{id}/grades": "webhooks:write",
  "GET /v1/webhooks/endpoints/{id}/grades/{grade_id}": "webhooks:write",
  "GET /v1/webhooks/endpoints/{id}/secret": "webhooks:read",
  "PATCH /v1/webhooks/endpoints/{id}/secret": "webhooks:write",
  "POST /v1/webhooks/endpoints/{id}/secret/rotate": "webhooks:write",
  "POST /v1/webhooks/endpoints/{id}/secret/activate": "webhooks:write",
  "POST /v1/webhooks/endpoints/{id}/enable": "webhooks:write",
  "POST /v1/webhooks/endpoints/{id}/disable": "webhooks:write",
  "POST /v1/webhooks/event-types": "webhooks:write",
  "GET /v1/webhooks/event-types": "webhooks:read",
  "GET /v1/webhooks/event-types/{name}": "webhooks:read",
  "PATCH /v1/webhooks/event-types/{name}": "webhooks:write",
  "DELETE /v1/webhooks/event-types/{name}": "webhooks:write",
  "GET /v1/webhooks/event-types/{name}/versions": "webhooks:read",
  "POST /v1/events": "events:publish",
  "GET /v1/events": "events:read",
  "GET /v1/events/{id}": "events:read",
  "DELETE /v1/events/{id}/content": "events:publish",
  "GET /v1/webhooks/deliveries": "webhooks:read",
  "GET /v1/webhooks/deliveries/stream": "webhooks:read",
  "GET /v1/webhooks/stats": "webhooks:read",
  "GET /v1/webhooks/deliveries/{id}": "webhooks:read",
  "GET /v1/webhooks/deliveries/{id}/attempts": "webhooks:read",
  "GET /v1/webhooks/dlq": "webhooks:read",
  "GET /v1/webhooks/dlq/{id}": "webhooks:read",
  "POST /v1/webhooks/deliveries/{id}/retry": "webhooks:write",
  "POST /v1/webhooks/deliveries/{id}/cancel": "webhooks:write",
  "POST /v1/webhooks/dlq/{id}/replay": "webhooks:replay",
  "GET /v1/webhooks/dlq/groups": "webhooks:read",
  "GET /v1/webhooks/dlq/summary": "webhooks:read",
  "GET /v1/webhooks/dlq/export": "webhooks:read",
  "POST /v1/webhooks/dlq/replay": "webhooks:replay",
  "POST /v1/webhooks/endpoints/{id}/replay-missing": "webhooks:replay",
  "GET /v1/webhooks/replays": "webhooks:read",
  "GET /v1/webhooks/replays/{id}": "webhooks:read",
  "GET /v1/webhooks/replays/{id}/items": "webhooks:read",
  "POST /v1/webhooks/replays/{id}/pause": "webhooks:replay",
  "POST /v1/webhooks/replays/{id}/resume": "webhooks:replay",
  "POST /v1/webhooks/replays/{id}/cancel": "webhooks:replay",
};
const SCOPES = [
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:publish",
  "events:publish_any",
  "events:read",
  "credentials:read",
  "credentials:write",
  "credentials:revoke",
  "compliance:read",
  "tokens:introspect",
  "portal:sign_in",
  "inference:read",
  // Additions to the contract (decision 23).
  "ssf:manage",
  "ssf:read",
];

/** Client of the platform tenant, the only tenant that can hold every scope. */
let client: Provisioned;
let routes: readonly ApiRoute[];
const tokens = new Map<string, string>();

async function tokenWith(scopes: readonly string[]): Promise<string> {
  const scope = scopes.join(" ");
  const token = tokens.get(scope) ?? (await accessToken(api, client, scope));
  tokens.set(scope, token);
  return token;
}

const without = (scope: string): readonly string[] => SCOPES.filter((other) => other !== scope);
const nameOf = ({ method, path }: ApiRoute): string => `${method} ${path}`;
const guarded = (): readonly ApiRoute[] =>
  routes.filter(({ scopes }) => scopes !== null && scopes.length > 0);

async function call({ method, path, takesBody }: ApiRoute, headers: Record<string, string>): Promise<Answer> {
  return await api.request(path.replaceAll(/\{\w+\}/g, newId("endpoint", 0, randomBytes)), {
    method,
    headers: { ...headers, ...(takesBody ? { "content-type": "application/json" } : {}) },
    ...(takesBody ? { body: "{}" } : {}),
  });
}

beforeAll(async () => {
  const tenant = await api.admin("POST", "/tenants", { name: "platform", region: "eu", platform: true });
  client = await provision(api, { scopes: SCOPES, tenantId: String(tenant.body["id"]) });
  routes = await apiRoutes(api);
});

test("every webhook route requires the scope that the contract gives it", () => {
  const declared = Object.fromEntries(routes.map((route) => [nameOf(route), route.scopes?.join(" ")]));
  expect(declared).toMatchObject(WEBHOOK_ROUTES);
});

test("every scope that a route requires is in the contract or decision 23", () => {
  expect(guarded().length).toBeGreaterThan(Object.keys(WEBHOOK_ROUTES).length);
  expect(
    guarded()
      .flatMap(({ scopes }) => scopes ?? [])
      .filter((scope) => !SCOPES.includes(scope)),
  ).toEqual([]);
});

test("every route answers 403 and names the missing scope to a token with all other scopes", async () => {
  for (const route of guarded()) {
    for (const scope of route.scopes ?? []) {
      const answer = await call(route, bearer(await tokenWith(without(scope))));
      expect({ route: nameOf(route), ...answer.body }).toEqual({
        route: nameOf(route),
        type: `${api.publicUrl}/errors/scope-violation`,
        title: "Scope violation",
        status: 403,
        code: "SCOPE_VIOLATION",
        detail: `${nameOf(route)} requires scope ${(route.scopes ?? []).join(" ")}.`,
        missing_permission: scope,
        missing_scopes: [scope],
        required_scopes: route.scopes,
        granted_scopes: [...without(scope)].sort(),
        instance: expect.stringMatching(/^\/v1\//),
        request_id: answer.headers.get("x-request-id"),
      });
      expect(answer.status).toBe(403);
    }
  }
});

test("every route accepts a token with only its own scopes", async () => {
  // The stream never ends; delivery-stream.test.ts tests it.
  for (const route of guarded().filter(({ path }) => path !== "/v1/webhooks/deliveries/stream")) {
    const { status, body } = await call(route, bearer(await tokenWith(route.scopes ?? [])));
    // Creating a credential also requires the principal's scopes, so a narrow token gets a 403 for
    // those.
    const forItsScopes = String(body["required_scopes"]) === String(route.scopes);
    expect({
      route: nameOf(route),
      refused: status === 401 || (status === 403 && forItsScopes),
    }).toEqual({
      route: nameOf(route),
      refused: false,
    });
  }
});

test("every route answers 401 TOKEN_MISSING without a token", async () => {
  for (const route of guarded()) {
    const answer = await call(route, {});
    expect({ route: nameOf(route), ...answer.body }).toMatchObject({
      route: nameOf(route),
      status: 401,
      code: "TOKEN_MISSING",
    });
    expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="service"');
  }
});

describe("publishing for another tenant", () => {
  let platform: Tenant;
  let other: Tenant;
  const event = (tenantId: string): Record<string, unknown> => ({
    type: "inference.completed",
    data: {},
    tenant_id: tenantId,
  });

  beforeAll(async () => {
    platform = asTenant(api, client, await tokenWith(SCOPES));
    other = await createTenant(api);
  });

  test("is allowed for services of the platform that hold events:publish_any", async () => {
    const answer = await platform.post("/v1/events", event(other.tenantId));
    expect(answer).toMatchObject({ status: 202 });
    expect(rows(await other.get("/v1/events"))).toMatchObject([{ id: answer.body["id"] }]);
    expect(rows(await platform.get("/v1/events"))).toEqual([]);
  });

  test("is rejected without the scope, in a batch item by item", async () => {
    const missing = {
      code: "SCOPE_VIOLATION",
      status: 403,
      missing_permission: "events:publish_any",
      missing_scopes: ["events:publish_any"],
      required_scopes: ["events:publish_any"],
    };
    const single = await other.post("/v1/events", event(platform.tenantId));
    expect(single).toMatchObject({ status: 403, body: missing });
    expect(single.headers.get("www-authenticate")).toBe(
      'Bearer realm="service", error="insufficient_scope", scope="events:publish_any"',
    );
    const batch = await other.post("/v1/events", {
      events: [event(platform.tenantId), event(other.tenantId)],
    });
    expect(batch).toMatchObject({
      status: 202,
      body: {
        data: [
          { index: 0, error: missing },
          { index: 1, type: "inference.completed" },
        ],
      },
    });
    expect(rows(await platform.get("/v1/events"))).toEqual([]);
  });

  test("needs no scope if the named tenant is the caller's own", async () => {
    expect(await other.post("/v1/events", event(other.tenantId))).toMatchObject({ status: 202 });
  });

  test("is rejected as unknown for a missing tenant, and as suspended for a suspended one", async () => {
    const unknown = { status: 422, body: { code: "VALIDATION_FAILED", errors: [{ pointer: "/tenant_id" }] } };
    const absent = event(newId("tenant", Date.now(), randomBytes));
    expect(await platform.post("/v1/events", absent)).toMatchObject(unknown);
    const suspended = await createTenant(api);
    await sql(api, "UPDATE tenants SET state = 'SUSPENDED' WHERE id = $1", [suspended.tenantId]);
    const refused = { status: 403, body: { code: "TENANT_SUSPENDED" } };
    expect(await platform.post("/v1/events", event(suspended.tenantId))).toMatchObject(refused);
  });

  test("is impossible for other tenants, whose roles cannot hold the scope", async () => {
    const answer = await api.admin("POST", `/tenants/${other.tenantId}/roles`, {
      name: "publisher",
      scopes: ["events:publish_any"],
    });
    expect(answer).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
  });
});
