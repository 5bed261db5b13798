/** docs/proxies/envoy-ext-authz.yaml in a real Envoy before a real upstream, which an edge guards. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createEdgeIdentityVerifier } from "../../../src/lib/edge-identity/verify.ts";
import { useTestApi } from "../../support/api.ts";
import {
  certificateFiles,
  clientPair,
  headerValue,
  newRoot,
  serverPair,
  thumbprint,
} from "../../support/certificates.ts";
import { useTestEdge } from "../../support/edge.ts";
import { startEnvoy, withoutEnvoy } from "../../support/envoy.ts";
import { bearer, grant, provision, type Provisioned } from "../../support/factories.ts";
import { call, type CallOptions } from "../../support/https-request.ts";
import { allowMinutes } from "../../support/limits.ts";
import type { SpawnedProcess } from "../../support/processes.ts";

allowMinutes(2);

const clients = await newRoot("Clients");
const servers = await newRoot("Servers");
const [own, other, front] = [await clientPair(clients), await clientPair(clients), await serverPair(servers)];
const files = certificateFiles();
const proxied = (socket: string) => ({
  SIGNET_MTLS_MODE: "proxy",
  SIGNET_CLIENT_CA_FILE: files.write("clients.crt", clients.cert),
  SIGNET_PROXY_SOCKET: files.path(socket),
});

describe.skipIf(withoutEnvoy("docs/proxies/envoy-ext-authz.yaml in a real Envoy"))("ext_authz", () => {
  const api = useTestApi({ environment: proxied("api.sock") });
  const edge = useTestEdge(api, {
    environment: () => ({ ...proxied("edge.sock"), SIGNET_EDGE_CHECKS: "envoy", SIGNET_EDGE_API_URL: "" }),
    routes: [
      { method: ["GET", "HEAD"], path: "/v1/items/{id}", scope: "items:read", upstream: "data" },
      { method: "POST", path: "/v1/items", scope: "items:write", upstream: "data" },
    ],
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
    expect(issued).toMatchObject({ status: 200 });
    token = String(issued.body["access_token"]);
  });
  afterAll(async () => {
    await running.stop();
    files.remove();
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
    ["no token", "/v1/items/1", { headers: { authorization: "" } }, 401, "TOKEN_MISSING"],
    ["another client's certificate", "/v1/items/1", { pair: other }, 401, "CERT_BINDING_MISMATCH"],
    ["no certificate", "/v1/items/1", { pair: undefined }, 401, "CLIENT_CERT_REQUIRED"],
    ["too few scopes", "/v1/items", { json: { name: "x" } }, 403, "SCOPE_VIOLATION"],
    ["a path outside the table", "/healthz", {}, 404, "NOT_FOUND"],
  ] as const)("a request with %s gets the edge's answer", async (_name, path, options, status, code) => {
    const answer = await ask(path, options);
    expect(answer, running.output()).toMatchObject({ status, body: { code } });
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
    await edge.process.close();
    expect(await ask("/v1/items/1")).toMatchObject({ status: 503 });
    expect(edge.upstream.requests).toEqual([]);
  });
});
