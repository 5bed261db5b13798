/** The shape of every error response (security decisions J), as a tenant receives it. */
import { beforeAll, describe, expect, test } from "vitest";
import { ERROR_CATALOGUE } from "#domain/errors.ts";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";

const api = useSharedApi();
let token: string;
let narrow: string;

beforeAll(async () => {
  const client = await provision(api, { scopes: ["credentials:read", "inference:read"] });
  token = await accessToken(api, client);
  narrow = await accessToken(api, client, "inference:read");
});

interface Expected {
  readonly status: number;
  readonly code: string;
  readonly slug: string;
  readonly title: string;
  readonly instance: string;
}

/** Expects exactly the members of a problem document, plus `more`. */
function expectProblem(answer: Answer, expected: Expected, more: Record<string, unknown> = {}): void {
  const { slug, ...members } = expected;
  expect(answer.status).toBe(expected.status);
  expect(answer.headers.get("content-type")).toBe("application/problem+json");
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(answer.headers.get("x-request-id")).toMatch(/^req_[0-9a-hjkmnp-tv-z]{24}$/);
  expect(answer.body).toEqual({
    ...members,
    type: `${api.publicUrl}/errors/${slug}`,
    detail: expect.stringMatching(/\S/),
    request_id: answer.headers.get("x-request-id"),
    ...more,
  });
}

describe("401", () => {
  const instance = "/v1/credentials";

  test("without a token has no error attribute", async () => {
    const answer = await api.request(instance);
    expectProblem(answer, {
      status: 401,
      code: "TOKEN_MISSING",
      slug: "token-missing",
      title: "Token missing",
      instance,
    });
    expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="service"');
  });

  test.each([
    ["Basic", () => "Basic YTpi"],
    ["a scheme that only starts with Bearer", () => `Bearer2 ${token}`],
    ["the bare token", () => token],
  ])("with %s is TOKEN_MISSING, not a token error (RFC 6750 section 3)", async (_name, value) => {
    const answer = await api.request(instance, { headers: { authorization: value() } });
    expect(answer).toMatchObject({ status: 401, body: { code: "TOKEN_MISSING" } });
    expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="service"');
  });

  test.each([
    ["an unknown token", () => bearer("a.b.c")],
    ["an empty token", () => ({ authorization: "Bearer " })],
    ["two tokens", () => bearer(`${token} ${token}`)],
    ["a tab instead of the space", () => ({ authorization: `Bearer\t${token}` })],
    [
      "a token with a changed claim",
      () => bearer(token.replace(/\.[^.]+\./, (part) => part.replace(/.\.$/, "x."))),
    ],
  ])("with %s is TOKEN_INVALID", async (_name, headers) => {
    const answer = await api.request(instance, { headers: headers() });
    expectProblem(answer, {
      status: 401,
      code: "TOKEN_INVALID",
      slug: "token-invalid",
      title: "Token invalid",
      instance,
    });
    expect(answer.headers.get("www-authenticate")).toBe('Bearer realm="service", error="invalid_token"');
  });

  test("does not apply to a token in the query: that is a 400, since only the header is read", async () => {
    const answer = await api.request(`${instance}?access_token=${token}`);
    expectProblem(answer, {
      status: 400,
      code: "INVALID_REQUEST",
      slug: "invalid-request",
      title: "Invalid request",
      instance,
    });
    expect(answer.text).not.toContain(token);
  });
});

test("403 SCOPE_VIOLATION names the missing permission", async () => {
  const answer = await api.request("/v1/credentials?limit=1", { headers: bearer(narrow) });
  expectProblem(
    answer,
    {
      status: 403,
      code: "SCOPE_VIOLATION",
      slug: "scope-violation",
      title: "Scope violation",
      instance: "/v1/credentials",
    },
    {
      detail: "GET /v1/credentials requires scope credentials:read.",
      missing_permission: "credentials:read",
      missing_scopes: ["credentials:read"],
      required_scopes: ["credentials:read"],
      granted_scopes: ["inference:read"],
    },
  );
  expect(answer.headers.get("www-authenticate")).toBe(
    'Bearer realm="service", error="insufficient_scope", scope="credentials:read"',
  );
});

test("403 takes precedence over 404, so a caller without the scope cannot learn what exists", async () => {
  const path = "/v1/credentials/crd_000000000000000000000000";
  expect(await api.request(path, { headers: bearer(narrow) })).toMatchObject({ status: 403 });
  expect(await api.request(path, { headers: bearer(token) })).toMatchObject({ status: 404 });
});

describe("404 and 405", () => {
  const nothing = { status: 404, code: "NOT_FOUND", slug: "not-found", title: "Not found" };

  test.each([
    "/v1",
    "/v2/credentials",
    "/v1/credentials/",
    "/V1/credentials",
    "/v1//credentials",
    "/admin/v1/tenants",
    "/errors/no-such-error",
    "/.git/config",
    "/v1/auth",
  ])("%s is not found", async (instance) => {
    expectProblem(await api.request(instance, { headers: bearer(token) }), { ...nothing, instance });
  });

  test.each([
    "x",
    "crd_1",
    "ten_000000000000000000000000",
    "crd_00000000000000000000000%00",
    "crd_000000000000000000000000%0a",
    "..%2f..",
    "a".repeat(99),
    "a".repeat(5_000),
  ])("a credential with the id %s is not found", async (id) => {
    const instance = `/v1/credentials/${id}`;
    expectProblem(await api.request(instance, { headers: bearer(token) }), { ...nothing, instance });
  });

  test.each([
    ["POST", "/.well-known/jwks.json", "GET, HEAD"],
    ["DELETE", "/v1/credentials", "GET, HEAD, POST"],
    ["PUT", "/v1/credentials/crd_000000000000000000000000", "GET, HEAD, PATCH"],
    ["OPTIONS", "/healthz", "GET, HEAD"],
  ])("%s %s is a 405 with the header Allow: %s", async (method, instance, allow) => {
    const answer = await api.request(instance, { method, headers: bearer(token) });
    expectProblem(answer, {
      status: 405,
      code: "METHOD_NOT_ALLOWED",
      slug: "method-not-allowed",
      title: "Method not allowed",
      instance,
    });
    expect(answer.headers.get("allow")).toBe(allow);
  });

  test.each([
    ["DELETE", "/portal/endpoints", "GET, HEAD"],
    ["QUERY", "/portal/endpoints", "GET, HEAD"],
    ["POST", "/portal/deliveries", "GET, HEAD"],
    ["POST", "/portal/nothing", null],
  ])("%s %s is a page with Allow: %s", async (method, path, allow) => {
    const { status, headers } = await api.request(path, { method, headers: bearer(token) });
    expect([status, headers.get("allow")]).toEqual([allow === null ? 404 : 405, allow]);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
  });
});

describe("the problem types", () => {
  test.each(Object.entries(ERROR_CATALOGUE))(
    "%s has a document at its address",
    async (code, { status, title }) => {
      const answer = await api.request(`/errors/${code.toLowerCase().replaceAll("_", "-")}`);
      expect(answer).toMatchObject({ status: 200, body: { code, status, title } });
      expect(String(answer.body["description"]).length).toBeGreaterThan(20);
    },
  );
});

test("answers to authenticated callers are never cached", async () => {
  const reader = await provision(api, { scopes: ["credentials:read", "webhooks:read", "compliance:read"] });
  const headers = bearer(await accessToken(api, reader));
  for (const path of ["/v1/credentials", "/v1/webhooks/endpoints", "/v1/compliance/entries"]) {
    const answer = await api.request(path, { headers });
    expect({ path, status: answer.status }).toEqual({ path, status: 200 });
    expect(answer.headers.get("cache-control")).toBe("no-store");
  }
  const tenants = await api.admin("GET", "/tenants");
  expect(tenants.headers.get("cache-control")).toBe("no-store");
});

describe("health", () => {
  test("the process reports that it runs and is ready", async () => {
    expect(await api.request("/healthz")).toMatchObject({ status: 200, body: { status: "ok" } });
    expect((await api.request("/readyz")).headers.get("cache-control")).toBe("no-store");
  });
});

test("every answer has its own request id and ignores an id sent by the caller", async () => {
  const answers = await Promise.all(
    ["/healthz", "/nothing", "/v1/credentials", "/errors/conflict", "/%zz"].map(
      async (path) => await api.request(path, { headers: { "x-request-id": "mine" } }),
    ),
  );
  const ids = answers.map(({ headers }) => headers.get("x-request-id"));
  expect(ids).toEqual(ids.map(() => expect.stringMatching(/^req_\w{24}$/)));
  expect(new Set(ids).size).toBe(ids.length);
});
