/** What the edge forwards and rejects, and what an upstream learns about its caller. */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createEdgeIdentityVerifier } from "#lib/edge-identity/verify.ts";
import { useSharedApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";

const api = useSharedApi();
const edge = useTestEdge(api);

let client: Provisioned;
let token: string;
beforeAll(async () => {
  client = await provision(api, {
    scopes: ["inference:read", "credentials:read"],
    environment: "development",
    region: "us",
  });
  token = await accessToken(api, client);
});
beforeEach(() => {
  edge.upstream.requests.length = 0;
});

const ask = async (path: string, options: Partial<Parameters<typeof call>[1]> = {}) =>
  await call(path, { port: edge.port, ...options, headers: { ...bearer(token), ...options.headers } });

test("a request with the route's scope reaches the upstream with a signed identity and without its token", async () => {
  const answer = await ask("/v1/inference/small?stream=1&stream=2");
  expect(answer).toMatchObject({ status: 200, body: { from: "upstream" } });
  expect(answer.headers).not.toHaveProperty("x-signet-test-admitted-at");
  const [forwarded] = edge.upstream.requests;
  expect(forwarded).toMatchObject({ method: "GET", url: "/v1/inference/small?stream=1&stream=2" });
  expect(forwarded?.headers).not.toHaveProperty("authorization");
  expect(forwarded?.headers["x-request-id"]).toBe(answer.headers["x-request-id"]);
  const verify = createEdgeIdentityVerifier({ keys: [edge.identityKey] });
  expect(verify(forwarded ?? { headers: {} })).toEqual({
    tenant: client.tenantId,
    principal: client.principalId,
    scope: "credentials:read inference:read",
    region: "us",
    request_id: answer.headers["x-request-id"],
    iat: expect.any(Number) as number,
  });
});

test("a request without the route's scope is rejected before the upstream gets a byte", async () => {
  const { connections } = edge.upstream;
  const answer = await ask("/v1/pipelines", { json: { name: "x" } });
  expect(answer).toMatchObject({
    status: 403,
    headers: {
      "content-type": "application/problem+json",
      "www-authenticate": 'Bearer realm="service", error="insufficient_scope", scope="pipeline:write"',
    },
    body: {
      code: "SCOPE_VIOLATION",
      missing_permission: "pipeline:write",
      missing_scopes: ["pipeline:write"],
      required_scopes: ["pipeline:write"],
      instance: "/v1/pipelines",
    },
  });
  expect(edge.upstream.requests).toEqual([]);
  expect(edge.upstream.connections).toBe(connections);
});

test("a token of another region is rejected on a regional route", async () => {
  expect(await ask("/v1/regional")).toMatchObject({
    status: 403,
    body: { code: "REGION_MISMATCH", required_regions: ["eu"], token_region: "us" },
  });
  const roaming = await provision(api, {
    scopes: ["inference:read"],
    environment: "development",
    region: "global",
  });
  const headers = bearer(await accessToken(api, roaming));
  expect(await ask("/v1/regional", { headers })).toMatchObject({ status: 200 });
});

describe("without a valid token nothing is forwarded:", () => {
  test.each([
    ["none", {}, "TOKEN_MISSING", 401],
    ["a malformed one", { authorization: "Bearer a.b.c" }, "TOKEN_INVALID", 401],
    ["another scheme", { authorization: "Basic YTpi" }, "TOKEN_MISSING", 401],
  ])("%s", async (_name, headers, code, status) => {
    expect(await call("/v1/inference/small", { port: edge.port, headers })).toMatchObject({
      status,
      body: { code },
    });
    expect(edge.upstream.requests).toEqual([]);
  });

  test("one in the query", async () => {
    for (const query of [`access_token=${token}`, `access_token=${token}&access_token=2`]) {
      expect(await ask(`/v1/inference/small?${query}`)).toMatchObject({
        status: 400,
        body: { code: "INVALID_REQUEST" },
      });
    }
    expect(edge.upstream.requests).toEqual([]);
  });
});

test("the service's own API is reached through the edge and checks its own scopes", async () => {
  expect(await call("/v1/auth/token", { port: edge.port, json: grant(client) })).toMatchObject({
    status: 200,
    body: { token_type: "Bearer" },
  });
  expect(await ask("/v1/credentials")).toMatchObject({ status: 200 });
  expect(await ask("/v1/webhooks/endpoints")).toMatchObject({
    status: 403,
    body: { code: "SCOPE_VIOLATION" },
  });
  expect(await call("/.well-known/jwks.json", { port: edge.port })).toMatchObject({ status: 200 });
  expect(await call("/openapi.json", { port: edge.port })).toMatchObject({ status: 200 });
});

test("public metadata keeps its ETag, gzip and CORS header through the edge, also for HEAD", async () => {
  for (const path of ["/openapi.json", "/.well-known/jwks.json", "/.well-known/oauth-authorization-server"]) {
    const get = await call(path, { port: edge.port });
    const { etag, "access-control-allow-origin": origin } = get.headers;
    expect([path, get.status, origin]).toEqual([path, 200, "*"]);
    const same = { port: edge.port, headers: { "if-none-match": etag } };
    expect(await call(path, same)).toMatchObject({ status: 304, text: "", headers: { etag } });
    const head = await call(path, { port: edge.port, method: "HEAD" });
    expect(head).toMatchObject({
      status: 200,
      text: "",
      headers: { etag, "access-control-allow-origin": "*" },
    });
  }
  const packed = { port: edge.port, headers: { "accept-encoding": "gzip" }, method: "HEAD" };
  expect((await call("/openapi.json", packed)).headers["content-encoding"]).toBe("gzip");
});

test("every path of the service's own API has a route through the edge", async () => {
  const { body } = await api.request("/openapi.json");
  const paths = Object.keys(body["paths"] as object);
  expect(paths.length).toBeGreaterThan(10);
  for (const path of paths) {
    const answer = await call(path.replaceAll(/\{\w+\}/g, "x"), { port: edge.port, method: "OPTIONS" });
    // The api answers 405 to a method that it does not support; an edge without a route answers 404.
    expect(answer.status, path).toBe(405);
  }
});

test("the operators' API has no route", async () => {
  const headers = bearer(api.operatorToken);
  for (const path of ["/admin/v1/tenants", "/admin", "/metrics"]) {
    expect(await call(path, { port: edge.port, headers })).toMatchObject({ status: 404 });
  }
});

test("a revoked token is rejected at the edge", async () => {
  const other = await provision(api, { scopes: ["inference:read"], environment: "development" });
  const headers = bearer(await accessToken(api, other));
  expect(await ask("/v1/inference/small", { headers })).toMatchObject({ status: 200 });
  const revoked = await api.admin("POST", `/credentials/${other.credentialId}/revoke`, { reason: "test" });
  expect(revoked.status).toBe(200);
  await expect
    .poll(async () => (await ask("/v1/inference/small", { headers })).body["code"], { timeout: 50_000 })
    .toBe("TOKEN_REVOKED");
});
