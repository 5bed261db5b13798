/** Operators: the rights of each role, and how they end. Routes come from the API's description. */
import { beforeAll, describe, expect, test } from "vitest";
import { OPERATOR_ROLES, operatorPermissions, type OperatorRole } from "#domain/operator-roles.ts";
import { useTestApi } from "#test/support/api.ts";
import { type AdminRoute, adminRoutes } from "#test/support/openapi.ts";
import { askAs, createOperator, type TestOperator } from "#test/support/operators.ts";

const api = useTestApi();
const DAY_MS = 86_400_000;
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string;
const id = (prefix: string): string => expect.stringMatching(`^${prefix}_[0-9a-hjkmnp-tv-z]{24}$`) as string;

let routes: readonly AdminRoute[];
let operators: Readonly<Record<OperatorRole, TestOperator>>;

beforeAll(async () => {
  routes = await adminRoutes(api);
  const [read, provision, security] = await Promise.all(
    OPERATOR_ROLES.map(async (role) => await createOperator(api, role)),
  );
  operators = { read, provision, security } as Record<OperatorRole, TestOperator>;
});

describe("every route of the operators' API", () => {
  const nameOf = ({ method, path }: AdminRoute): string => `${method} ${path}`;
  /** An id that does not exist, so that permitted calls change nothing. */
  const unknownId = ({ path }: AdminRoute): string => path.replaceAll(/\{\w+\}/g, "x");

  test("is in the description", () => {
    expect(routes.map(nameOf)).toEqual(
      expect.arrayContaining(["GET /tenants", "POST /operators", "PATCH /roles/{id}", "GET /openapi.json"]),
    );
    expect(routes.length).toBeGreaterThan(20);
  });

  test.each(OPERATOR_ROLES)("permits role %s its own operations and nothing else", async (role) => {
    const mayDo = operatorPermissions([role]);
    const ask = async (route: AdminRoute) =>
      await askAs(api, operators[role].token, route.method, unknownId(route));
    const allowed = routes.filter((route) => mayDo.has(route.role));
    expect(allowed.length).toBeGreaterThan(0);
    for (const route of allowed) {
      expect([401, 403], nameOf(route)).not.toContain((await ask(route)).status);
    }
    const forbidden = routes.filter((route) => !mayDo.has(route.role));
    expect(forbidden.length).toBeGreaterThan(0);
    for (const route of forbidden) {
      const answer = await ask(route);
      expect({ route: nameOf(route), ...answer }).toMatchObject({
        route: nameOf(route),
        status: 403,
        body: {
          code: "SCOPE_VIOLATION",
          missing_role: route.role,
          missing_permission: `operator:${route.role}`,
          granted_scopes: [...mayDo].map((permission) => `operator:${permission}`),
        },
      });
      expect(answer.headers.get("content-type")).toContain("application/problem+json");
      expect(answer.headers.get("www-authenticate")).toContain('error="insufficient_scope"');
    }
  });

  test("permits the bootstrap operator everything", async () => {
    for (const route of routes) {
      const answer = await askAs(api, api.operatorToken, route.method, unknownId(route));
      expect([401, 403], nameOf(route)).not.toContain(answer.status);
    }
  });

  test("rejects requests without a token, also over loopback", async () => {
    for (const route of routes) {
      const answer = await askAs(api, undefined, route.method, unknownId(route));
      expect({ route: nameOf(route), status: answer.status, code: answer.body["code"] }).toEqual({
        route: nameOf(route),
        status: 401,
        code: "TOKEN_MISSING",
      });
    }
  });
});

describe("an operator", () => {
  test("is returned with everything but tokens", async () => {
    const created = await api.admin("POST", "/operators", {
      name: "Ann Example",
      role: "provision",
      certificate_thumbprints: ["ab".repeat(32)],
    });
    expect(created).toMatchObject({ status: 201 });
    expect(created.body).toEqual({
      id: id("opr"),
      name: "Ann Example",
      role: "provision",
      state: "ACTIVE",
      san_uri: null,
      certificate_thumbprints: ["ab".repeat(32)],
      created_by: "bootstrap",
      created_at: TIME,
      revoked_at: null,
    });
    expect((await api.admin("GET", `/operators/${String(created.body["id"])}`)).body).toEqual(created.body);
  });

  test("has a unique name and SAN URI", async () => {
    const san_uri = "spiffe://service.example/operator/eve";
    expect(await api.admin("POST", "/operators", { name: "eve", role: "read", san_uri })).toMatchObject({
      status: 201,
    });
    for (const body of [
      { name: "eve", role: "read" },
      { name: "mallory", role: "read", san_uri },
    ]) {
      expect(await api.admin("POST", "/operators", body)).toMatchObject({
        status: 409,
        body: { code: "CONFLICT" },
      });
    }
  });

  test("has its new role's rights from the next request on", async () => {
    const operator = await createOperator(api, "read");
    expect(await askAs(api, operator.token, "POST", "/tenants")).toMatchObject({ status: 403 });
    const changed = await api.admin("PATCH", `/operators/${operator.id}`, { role: "provision" });
    expect(changed).toMatchObject({ status: 200, body: { role: "provision" } });
    expect((await askAs(api, operator.token, "POST", "/tenants")).status).not.toBe(403);
  });

  test("that was revoked is locked out at once, permanently, with all its tokens", async () => {
    const operator = await createOperator(api, "security");
    expect(await askAs(api, operator.token, "GET", "/tenants")).toMatchObject({ status: 200 });
    const revoked = await api.admin("POST", `/operators/${operator.id}/revoke`, {});
    expect(revoked).toMatchObject({ status: 200, body: { state: "REVOKED", revoked_at: TIME } });
    expect(await askAs(api, operator.token, "GET", "/tenants")).toMatchObject({
      status: 401,
      body: { code: "TOKEN_REVOKED" },
    });
    expect(await api.admin("POST", `/operators/${operator.id}/tokens`, {})).toMatchObject({ status: 409 });
    expect(await api.admin("PATCH", `/operators/${operator.id}`, { role: "read" })).toMatchObject({
      status: 409,
      body: { code: "INVALID_STATE" },
    });
    expect((await api.admin("POST", `/operators/${operator.id}/revoke`, {})).body).toEqual(revoked.body);
  });

  test.each([
    ["an unknown role", { name: "x", role: "admin" }],
    ["two roles", { name: "x", role: ["read", "security"] }],
    ["no role", { name: "x" }],
    ["a chosen token", { name: "x", role: "read", token: "sgn_op_mine" }],
    ["a SAN that is not a SPIFFE id", { name: "x", role: "read", san_uri: "https://example.com/a" }],
  ])("cannot be created with %s", async (_name, body) => {
    expect(await api.admin("POST", "/operators", body)).toMatchObject({
      status: 422,
      body: { code: "VALIDATION_FAILED" },
    });
  });

  test("cannot be changed by an empty body", async () => {
    const body = {};
    expect(await api.admin("PATCH", `/operators/${operators.read.id}`, body)).toMatchObject({ status: 422 });
  });
});

describe("an operator's token", () => {
  test("is returned once", async () => {
    const answer = await api.admin("POST", `/operators/${operators.read.id}/tokens`, { expires_in_days: 7 });
    expect(answer.status).toBe(201);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const { token, ...rest } = answer.body;
    expect(token).toMatch(/^sgn_op_[0-9A-Za-z]{49}$/);
    expect(rest).toEqual({
      id: id("otk"),
      operator_id: operators.read.id,
      prefix: String(token).slice(0, 12),
      created_by: "bootstrap",
      created_at: TIME,
      expires_at: TIME,
      last_used_at: null,
      revoked_at: null,
    });
    expect(Date.parse(String(rest["expires_at"])) - Date.parse(String(rest["created_at"]))).toBe(7 * DAY_MS);
    const list = await api.admin("GET", `/operators/${operators.read.id}/tokens`);
    expect((list.body["data"] as unknown[])[0]).toEqual(rest);
    expect(list.text).not.toContain(String(token));
  });

  test("has a time of last use", async () => {
    const operator = await createOperator(api, "read");
    await askAs(api, operator.token, "GET", "/tenants");
    const { body } = await api.admin("GET", `/operators/${operator.id}/tokens`);
    expect(body["data"]).toMatchObject([{ last_used_at: TIME }]);
  });

  test("that was revoked is rejected, while the operator's others still work", async () => {
    const operator = await createOperator(api, "read");
    const other = await api.admin("POST", `/operators/${operator.id}/tokens`, {});
    const path = `/operators/${operator.id}/tokens/${operator.tokenId}`;
    expect(await api.admin("DELETE", path)).toMatchObject({ status: 204 });
    expect(await api.admin("DELETE", path)).toMatchObject({ status: 204 });
    expect(await askAs(api, operator.token, "GET", "/tenants")).toMatchObject({
      status: 401,
      body: { code: "TOKEN_REVOKED" },
    });
    expect(await askAs(api, String(other.body["token"]), "GET", "/tenants")).toMatchObject({ status: 200 });
  });

  test("can be revoked only under its own operator", async () => {
    const operator = await createOperator(api, "read");
    const path = `/operators/${operators.read.id}/tokens/${operator.tokenId}`;
    expect(await api.admin("DELETE", path)).toMatchObject({ status: 404 });
    expect(await askAs(api, operator.token, "GET", "/tenants")).toMatchObject({ status: 200 });
  });

  test("cannot be guessed from a valid one, and is not looked up if its checksum is wrong", async () => {
    const { token } = operators.read;
    const changed = token.replace(/.$/, (last) => (last === "a" ? "b" : "a"));
    for (const wrong of [changed, token.slice(0, -1), `${token}x`, token.toUpperCase()]) {
      expect(await askAs(api, wrong, "GET", "/tenants")).toMatchObject({
        status: 401,
        body: { code: "TOKEN_INVALID" },
      });
    }
    expect(await askAs(api, token, "GET", "/tenants")).toMatchObject({ status: 200 });
  });

  test("is one of ten at most", async () => {
    const operator = await createOperator(api, "read");
    for (let count = 1; count < 10; count += 1) {
      expect((await api.admin("POST", `/operators/${operator.id}/tokens`, {})).status).toBe(201);
    }
    expect(await api.admin("POST", `/operators/${operator.id}/tokens`, {})).toMatchObject({
      status: 422,
      body: { code: "LIMIT_EXCEEDED" },
    });
  });

  test.each([0, 367, 1.5, "7"])("cannot be valid for %j days", async (expires_in_days) => {
    const answer = await api.admin("POST", `/operators/${operators.read.id}/tokens`, { expires_in_days });
    expect(answer).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
  });

  test("is rejected on the public listener", async () => {
    const headers = { authorization: `Bearer ${operators.security.token}` };
    expect(await api.request("/v1/credentials", { headers })).toMatchObject({ status: 401 });
    expect(await api.request("/admin/v1/tenants", { headers })).toMatchObject({ status: 404 });
  });

  test("expires at its time", async () => {
    const operator = await createOperator(api, "read");
    api.clock.advance(90 * DAY_MS - 60_000);
    expect(await askAs(api, operator.token, "GET", "/tenants")).toMatchObject({ status: 200 });
    api.clock.advance(60_000);
    expect(await askAs(api, operator.token, "GET", "/tenants")).toMatchObject({
      status: 401,
      body: { code: "TOKEN_EXPIRED" },
    });
  });
});
