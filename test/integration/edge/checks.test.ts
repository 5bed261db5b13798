/** An edge that answers the checks of a proxy: the same answers as one that forwards, without forwarding. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createEdgeIdentityVerifier } from "#lib/edge-identity/verify.ts";
import { useSharedApi, useTestApi } from "#test/support/api.ts";
import {
  certificateFiles,
  clientPair,
  headerValue,
  newRoot,
  thumbprint,
} from "#test/support/certificates.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";

const ROUTES = [
  { method: ["GET", "HEAD"], path: "/v1/events/{id}", scope: "inference:read", upstream: "data" },
  { method: "POST", path: "/v1/pipelines", scope: "pipeline:write", upstream: "data" },
  { method: "GET", path: "/raw", scope: "inference:read", upstream: "data", forward_authorization: true },
];
const checking = (kind: string) => () => ({ SIGNET_EDGE_CHECKS: kind, SIGNET_EDGE_API_URL: "" });

const api = useSharedApi();
let client: Provisioned;
let token: string;
beforeAll(async () => {
  client = await provision(api, { scopes: ["inference:read"], environment: "development" });
  token = await accessToken(api, client);
});

describe("Envoy", () => {
  const edge = useTestEdge(api, { environment: checking("envoy"), routes: ROUTES });
  const check = async (path: string, options: Partial<Parameters<typeof call>[1]> = {}) =>
    await call(path, { port: edge.port, ...options, headers: { ...bearer(token), ...options.headers } });

  test("an allowed request gets 200 and its caller's identity, signed for its method and path", async () => {
    const answer = await check("/v1/events/1?a=1&a=2");
    expect(answer).toMatchObject({
      status: 200,
      text: "",
      headers: { "cache-control": "no-store", "x-envoy-auth-headers-to-remove": "authorization" },
    });
    const whoCalls = createEdgeIdentityVerifier({ keys: [edge.identityKey] });
    const { headers } = answer;
    expect(whoCalls({ method: "GET", url: "/v1/events/1?a=1&a=2", headers })).toMatchObject({
      tenant: client.tenantId,
      principal: client.principalId,
      scope: "inference:read",
      request_id: headers["x-request-id"],
    });
    for (const [method, url] of [
      ["GET", "/v1/events/2?a=1&a=2"],
      ["POST", "/v1/events/1?a=1&a=2"],
    ] as const) {
      expect(() => whoCalls({ method, url, headers })).toThrow(/not signed for this request/);
    }
    expect(edge.upstream.requests).toEqual([]);
  });

  test("the upstream keeps the token if its route says so", async () => {
    const { status, headers } = await check("/raw");
    expect(status).toBe(200);
    expect(headers).not.toHaveProperty("x-envoy-auth-headers-to-remove");
  });

  test("a denied request gets the edge's answer", async () => {
    expect(await check("/v1/pipelines", { method: "POST" })).toMatchObject({
      status: 403,
      headers: { "content-type": "application/problem+json" },
      body: { code: "SCOPE_VIOLATION", missing_permission: "pipeline:write" },
    });
    expect(await check("/v1/events/1", { headers: { authorization: "" } })).toMatchObject({
      status: 401,
      body: { code: "TOKEN_MISSING" },
    });
    expect(await check("/v1/events/1", { headers: bearer("a.b.c") })).toMatchObject({
      status: 401,
      headers: { "www-authenticate": expect.stringContaining("invalid_token") as string },
      body: { code: "TOKEN_INVALID" },
    });
  });

  test.each([
    "/healthz",
    "/readyz",
    "/metrics",
    "/",
    "/v1/events",
    "/v1/events/",
    "/.well-known/status-lists",
  ])("no path outside the table is allowed: %s", async (path) => {
    expect(await check(path)).toMatchObject({ status: 404 });
  });

  test.each([
    "/v1/%65vents/1",
    "/v1//events/1",
    "/v1/events/../events/1",
    "/v1/events/a%2fb",
    "/v1/events/%7e",
  ])("a path that the upstream might read differently is rejected: %s", async (path) => {
    expect(await check(path)).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
  });

  test("a client's own headers do not choose the path", async () => {
    const headers = {
      "x-original-method": "GET",
      "x-original-uri": "/v1/events/1",
      "x-forwarded-method": "GET",
      "x-forwarded-uri": "/v1/events/1",
    };
    expect(await check("/v1/pipelines", { method: "POST", headers })).toMatchObject({ status: 403 });
  });

  test("a body is ignored, and the connection stays usable", async () => {
    const author = await provision(api, { scopes: ["pipeline:write"], environment: "development" });
    const headers = bearer(await accessToken(api, author));
    for (const body of [{ name: "x" }, { name: "x".repeat(50_000) }]) {
      expect(await check("/v1/pipelines", { json: body, headers })).toMatchObject({ status: 200 });
    }
    expect(await check("/v1/events/1")).toMatchObject({ status: 200 });
  });

  test("a revoked token is denied", async () => {
    const leaked = await provision(api, { scopes: ["inference:read"], environment: "development" });
    const headers = bearer(await accessToken(api, leaked));
    expect(await check("/v1/events/1", { headers })).toMatchObject({ status: 200 });
    const receipt = await api.admin("POST", `/credentials/${leaked.credentialId}/revoke`, {});
    expect(receipt.status).toBe(200);
    expect(await check("/v1/events/1", { headers })).toMatchObject({
      status: 401,
      body: { code: "TOKEN_REVOKED" },
    });
  });

  test("a new route table takes effect, and needs no addresses of upstreams", async () => {
    const { upstreams, routes } = {
      upstreams: { data: { identity_key: edge.identityKey } },
      routes: [{ method: "GET", path: "/v2/only", scope: "inference:read", upstream: "data" }],
    };
    edge.writeRoutes({ upstreams, routes });
    await edge.process.reload();
    expect(await check("/v2/only")).toMatchObject({ status: 200 });
    expect(await check("/v1/events/1")).toMatchObject({ status: 404 });
  });
});

describe.each([
  ["nginx", "x-original-method", "x-original-uri"],
  ["traefik", "x-forwarded-method", "x-forwarded-uri"],
] as const)("%s", (kind, methodHeader, targetHeader) => {
  const edge = useTestEdge(api, { environment: checking(kind), routes: ROUTES });
  const check = async (method: string, target: string, more: Readonly<Record<string, string>> = {}) =>
    await call("/whatever", {
      port: edge.port,
      headers: { ...bearer(token), [methodHeader]: method, [targetHeader]: target, ...more },
    });

  test("the method and the path are those of its headers", async () => {
    const { status, headers } = await check("GET", "/v1/events/1?a=1");
    expect(status).toBe(200);
    const whoCalls = createEdgeIdentityVerifier({ keys: [edge.identityKey] });
    expect(whoCalls({ method: "GET", url: "/v1/events/1?a=1", headers })).toMatchObject({
      tenant: client.tenantId,
    });
    expect(await check("POST", "/v1/pipelines")).toMatchObject({ status: 403 });
    expect(await check("GET", "/v1/nothing")).toMatchObject({ status: 404 });
  });

  test("a check of a HEAD request is answered at once, also a denied one", async () => {
    expect((await check("HEAD", "/v1/events/1")).status).toBe(200);
    expect((await check("HEAD", "/v1/events/1", { authorization: "" })).status).toBe(401);
    expect((await check("HEAD", "/v1/nothing")).status).toBe(404);
  });

  test.each([
    ["no method", { [methodHeader]: "" }],
    ["an unknown method", { [methodHeader]: "PURGE" }],
    ["no path", { [targetHeader]: "" }],
    ["a whole URL", { [targetHeader]: "http://elsewhere/v1/events/1" }],
    ["a path that the upstream might read differently", { [targetHeader]: "/v1/%65vents/1" }],
  ])("a check with %s is rejected", async (_name, headers) => {
    expect(await check("GET", "/v1/events/1", headers)).toMatchObject({ status: 400 });
  });

  test("a check with two paths is rejected", async () => {
    const rawHeaders = ["Host", "edge", "Authorization", `Bearer ${token}`, methodHeader, "GET"];
    const twice = [targetHeader, "/v1/events/1", targetHeader, "/v1/events/2"];
    expect(await call("/whatever", { port: edge.port, rawHeaders: [...rawHeaders, ...twice] })).toMatchObject(
      {
        status: 400,
      },
    );
  });

  test("a check without these headers is rejected, whatever its own path", async () => {
    expect(await call("/v1/events/1", { port: edge.port, headers: bearer(token) })).toMatchObject({
      status: 400,
    });
  });
});

const clients = await newRoot("Clients");
const [own, other] = [await clientPair(clients), await clientPair(clients)];

describe("behind a proxy that terminates mutual TLS, over its socket", () => {
  const files = certificateFiles();
  afterAll(() => files.remove());
  const proxied = (socket: string) => ({
    SIGNET_MTLS_MODE: "proxy",
    SIGNET_CLIENT_CA_FILE: files.write("clients.crt", clients.cert),
    SIGNET_PROXY_SOCKET: files.path(socket),
  });
  const secured = useTestApi({ environment: proxied("api.sock") });
  useTestEdge(secured, {
    environment: () => ({ ...checking("envoy")(), ...proxied("edge.sock") }),
    routes: ROUTES,
  });

  test("a token works only with the certificate that the proxy forwards", async () => {
    const bound = await provision(secured, {
      scopes: ["inference:read"],
      credential: { certificate_thumbprints: [thumbprint(own)] },
    });
    const issued = await call("/v1/auth/token", {
      socketPath: files.path("api.sock"),
      headers: { "client-cert": headerValue(own) },
      json: grant(bound),
    });
    expect(issued).toMatchObject({ status: 200 });
    const check = async (more: Readonly<Record<string, string>>) =>
      await call("/v1/events/1", {
        socketPath: files.path("edge.sock"),
        headers: { ...bearer(String(issued.body["access_token"])), ...more },
      });
    expect(await check({ "client-cert": headerValue(own) })).toMatchObject({ status: 200 });
    expect(await check({ "client-cert": headerValue(other) })).toMatchObject({
      status: 401,
      body: { code: "CERT_BINDING_MISMATCH" },
    });
    expect(await check({})).toMatchObject({ status: 401, body: { code: "CLIENT_CERT_REQUIRED" } });
  });
});
