/** The configurations of docs/proxies for checks, in a real Envoy and a real nginx before a real upstream. */
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createEdgeIdentityVerifier } from "#lib/edge-identity/verify.ts";
import { useTestApi } from "#test/support/api.ts";
import {
  certificateFiles,
  clientPair,
  headerValue,
  newRoot,
  serverPair,
  thumbprint,
} from "#test/support/certificates.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { startEnvoy, withoutEnvoy } from "#test/support/envoy.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { call, type CallOptions } from "#test/support/https-request.ts";
import { eventually } from "#test/support/eventually.ts";
import { freePort } from "#test/support/free-port.ts";
import { type SpawnedProcess, spawnProcess } from "#test/support/processes.ts";
import { skipUnless } from "#test/support/skips.ts";

const clients = await newRoot("Clients");
const servers = await newRoot("Servers");
const [own, other, front] = [await clientPair(clients), await clientPair(clients), await serverPair(servers)];
const files = certificateFiles();
afterAll(() => files.remove());
const proxied = (socket: string) => ({
  SIGNET_MTLS_MODE: "proxy",
  SIGNET_CLIENT_CA_FILE: files.write("clients.crt", clients.cert),
  SIGNET_PROXY_SOCKET: files.path(socket),
});

const ROUTES = [
  { method: ["GET", "HEAD"], path: "/v1/items/{id}", scope: "items:read", upstream: "data" },
  { method: "POST", path: "/v1/items", scope: "items:write", upstream: "data" },
];

describe.skipIf(withoutEnvoy("docs/proxies/envoy-ext-authz.yaml in a real Envoy"))("ext_authz", () => {
  const api = useTestApi({ environment: proxied("api.sock") });
  const edge = useTestEdge(api, {
    environment: () => ({ ...proxied("edge.sock"), SIGNET_EDGE_CHECKS: "envoy", SIGNET_EDGE_API_URL: "" }),
    routes: ROUTES,
  });
  let running: SpawnedProcess;
  let port: number;
  let client: Provisioned;
  let token: string;

  beforeAll(async () => {
    files.write("server.key", front.key);
    files.write("server.crt", front.cert);
    ({ port, running } = await startEnvoy("envoy-ext-authz.yaml", files, {
      "/run/signet/edge.sock": files.path("edge.sock"),
      "address: service.internal, port_value: 9000": `address: 127.0.0.1, port_value: ${new URL(edge.upstream.origin).port}`,
    }));
    client = await provision(api, {
      scopes: ["items:read"],
      credential: { certificate_thumbprints: [thumbprint(own)] },
    });
    const issued = await call("/v1/auth/token", {
      socketPath: files.path("api.sock"),
      headers: { "client-cert": headerValue(own) },
      json: grant(client),
    });
    token = String(issued.body["access_token"]);
  });
  afterAll(async () => {
    await running.stop();
  });

  const ask = async (path: string, options: CallOptions = {}) => {
    edge.upstream.requests.length = 0;
    const headers = { ...bearer(token), ...options.headers };
    return await call(path, { port, ca: servers.cert, pair: own, ...options, headers });
  };

  test("an allowed request reaches the upstream with a signed identity and without its token", async () => {
    const forged = { "x-signet-identity": "forged", "client-cert": headerValue(other) };
    expect(await ask("/v1/items/1?a=1", { headers: forged })).toMatchObject({
      status: 200,
      body: { from: "upstream", url: "/v1/items/1?a=1" },
    });
    const [forwarded] = edge.upstream.requests;
    expect(forwarded?.headers).not.toHaveProperty("authorization");
    expect(forwarded?.headers).not.toHaveProperty("client-cert");
    const whoCalls = createEdgeIdentityVerifier({ keys: [edge.identityKey] });
    expect(whoCalls(forwarded ?? { headers: {} })).toMatchObject({
      tenant: client.tenantId,
      scope: "items:read",
      request_id: forwarded?.headers["x-request-id"],
    });
  });

  test.each([
    ["401 TOKEN_MISSING", "/v1/items/1", { headers: { authorization: "" } }],
    ["401 CERT_BINDING_MISMATCH", "/v1/items/1", { pair: other }],
    ["401 CLIENT_CERT_REQUIRED", "/v1/items/1", { pair: undefined }],
    ["403 SCOPE_VIOLATION", "/v1/items", { json: { name: "x" } }],
    ["404 NOT_FOUND", "/healthz", {}],
  ] as const)("a denied request gets the edge's answer: %s", async (expected, path, options) => {
    const answer = await ask(path, options);
    expect(`${answer.status} ${String(answer.body["code"])}`, running.output()).toBe(expected);
    expect(answer.headers["content-type"]).toBe("application/problem+json");
    expect(edge.upstream.requests).toEqual([]);
  });

  test("a path in several spellings reaches the upstream as it was checked, or not at all", async () => {
    for (const path of [
      "/v1//items/1",
      "/v1/x/../items/1",
      "/v1/items/%31",
      "/v1/items/a%2fb",
      "/v1/items/1;x",
    ]) {
      const { status } = await ask(path);
      const [forwarded] = edge.upstream.requests;
      expect([status, forwarded?.url]).toEqual(
        forwarded === undefined ? [status, undefined] : [200, "/v1/items/1"],
      );
      expect(forwarded !== undefined || [307, 400].includes(status)).toBe(true);
    }
  });

  test("a revoked token is rejected; without the edge, nothing is forwarded", async () => {
    expect(await ask("/v1/items/1")).toMatchObject({ status: 200 });
    const { status } = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
    expect(status).toBe(200);
    expect(await ask("/v1/items/1")).toMatchObject({ status: 401, body: { code: "TOKEN_REVOKED" } });
    await edge.stop();
    expect(await ask("/v1/items/1")).toMatchObject({ status: 503 });
    expect(edge.upstream.requests).toEqual([]);
  });
});

const nginx = process.env["SIGNET_TEST_NGINX"] ?? "/usr/sbin/nginx";
const NO_NGINX = skipUnless(
  existsSync(nginx),
  "docs/proxies/nginx-auth-request.conf in a real nginx",
  `${nginx} is missing; .ci/programs installs it`,
);

describe.skipIf(NO_NGINX)("auth_request", () => {
  const api = useTestApi();
  // Without certificates: nginx's JavaScript module, which forwards them, is a package of its own.
  const edge = useTestEdge(api, {
    environment: () => ({ SIGNET_EDGE_CHECKS: "nginx", SIGNET_EDGE_API_URL: "" }),
    routes: ROUTES,
  });
  let running: SpawnedProcess;
  let port: number;
  let client: Provisioned;
  let token: string;

  beforeAll(async () => {
    port = await freePort();
    const example = await readFile(
      join(import.meta.dirname, "../../../docs/proxies/nginx-auth-request.conf"),
      "utf8",
    );
    const locations = example
      .replace("http://unix:/run/signet/edge.sock:/", `${edge.url}/`)
      .replace("http://service.internal:9000", edge.upstream.origin);
    await mkdir(files.path("nginx"));
    const config = `daemon off; pid ${files.path("nginx/pid")}; error_log stderr; events {}
      http {
        access_log off;
        ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${files.path("nginx")}/${name};`).join(" ")}
        map "" $client_cert { default ""; }
        server { listen 127.0.0.1:${port}; ${locations} }
      }`;
    running = spawnProcess({
      command: [nginx, "-p", files.path("nginx"), "-c", files.write("nginx.conf", config)],
      cwd: files.path(""),
      environment: {},
    });
    const listens = async (): Promise<boolean> =>
      await new Promise((resolve) => {
        expect(running.state(), running.output()).toBeUndefined();
        const socket = connect(port, "127.0.0.1", () => resolve(true)).once("error", () => resolve(false));
        socket.once("connect", () => socket.destroy());
      });
    await eventually(listens, "nginx");
    client = await provision(api, { scopes: ["items:read"], environment: "development" });
    token = await accessToken(api, client);
  });
  afterAll(async () => await running.stop());

  const ask = async (path: string, options: CallOptions = {}) => {
    edge.upstream.requests.length = 0;
    return await call(path, { port, ...options, headers: { ...bearer(token), ...options.headers } });
  };

  test("an allowed request reaches the upstream with a signed identity and without its token", async () => {
    const forged = { "x-signet-identity": "forged", "x-original-uri": "/v1/items/2" };
    expect(await ask("/v1/items/1?a=1&b=%20", { headers: forged }), running.output()).toMatchObject({
      status: 200,
    });
    const [forwarded] = edge.upstream.requests;
    expect(forwarded?.headers).not.toHaveProperty("authorization");
    const whoCalls = createEdgeIdentityVerifier({ keys: [edge.identityKey] });
    expect(whoCalls(forwarded ?? { headers: {} })).toMatchObject({
      tenant: client.tenantId,
      request_id: forwarded?.headers["x-request-id"],
    });
  });

  test.each([
    ["no token", "/v1/items/1", { headers: { authorization: "" } }, 401],
    ["too few scopes", "/v1/items", { json: { name: "x" } }, 403],
    ["a path outside the table", "/healthz", {}, 500],
    ["the address of the check", "/_signet", { headers: { "x-original-uri": "/v1/items/1" } }, 404],
    ["another spelling of its path", "/v1/x/../items/1", {}, 500],
  ] as const)("a request with %s is not forwarded", async (_name, path, options, status) => {
    expect(await ask(path, options), running.output()).toMatchObject({ status });
    expect(edge.upstream.requests).toEqual([]);
  });

  test("a body reaches the upstream, and not the edge; a HEAD request is checked as one", async () => {
    const author = await provision(api, { scopes: ["items:write"], environment: "development" });
    const headers = bearer(await accessToken(api, author));
    expect(await ask("/v1/items", { json: { name: "x".repeat(5_000) }, headers })).toMatchObject({
      status: 200,
    });
    expect(edge.upstream.requests[0]?.body).toHaveLength(5_011);
    expect((await ask("/v1/items/1", { method: "HEAD" })).status).toBe(200);
  });

  test("a revoked token is rejected; without the edge, nothing is forwarded", async () => {
    const { status } = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
    expect(status).toBe(200);
    expect(await ask("/v1/items/1")).toMatchObject({ status: 401 });
    await edge.stop();
    expect(await ask("/v1/items/1")).toMatchObject({ status: 500 });
    expect(edge.upstream.requests).toEqual([]);
  });
});
