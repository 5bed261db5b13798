/** Mutual TLS between clients and the edge and between the edge and the api, with tokens bound across both. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import {
  certificateFiles,
  clientPair,
  newRoot,
  serverPair,
  thumbprint,
  today,
  x5t,
} from "#test/support/certificates.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { call, type CallOptions } from "#test/support/https-request.ts";

const EDGE = "spiffe://service.example/edge";

const clients = await newRoot("Clients");
const internal = await newRoot("Internal");
const intermediate = await clients.issueAuthority({ subject: "CN=Intermediate", ...today() });
const leaf = await clientPair(clients);
const deep = await clientPair(intermediate);
const edgePair = await clientPair(internal, { sanUri: EDGE });
const server = await serverPair(internal);
const apiPair = await internal.issue({
  subject: "CN=api",
  names: [{ type: "dns", value: "api.internal" }],
  purposes: ["serverAuth"],
  ...today(),
});
const files = certificateFiles();
const clientCa = files.write("clients.crt", clients.cert);
const internalCa = files.write("internal.crt", internal.cert);

const api = useTestApi({
  environment: {
    SIGNET_MTLS_MODE: "proxy",
    SIGNET_TLS_KEY_FILE: files.write("api.key", apiPair.key),
    SIGNET_TLS_CERT_FILE: files.write("api.crt", apiPair.cert),
    SIGNET_CLIENT_CA_FILE: clientCa,
    SIGNET_PROXY_CA_FILE: internalCa,
    SIGNET_PROXY_NAMES: `URI:${EDGE}`,
    SIGNET_TRUSTED_PROXIES: "127.0.0.1/32",
  },
});
const native = (names: string) => () => ({
  SIGNET_MTLS_MODE: "native",
  SIGNET_TLS_KEY_FILE: files.write("edge-server.key", server.key),
  SIGNET_TLS_CERT_FILE: files.write("edge-server.crt", server.cert),
  SIGNET_CLIENT_CA_FILE: clientCa,
  SIGNET_EDGE_API_URL: `https://127.0.0.1:${api.edgePort}`,
  SIGNET_EDGE_API_CA_FILE: internalCa,
  SIGNET_EDGE_API_NAMES: names,
  SIGNET_EDGE_KEY_FILE: files.write("edge.key", edgePair.key),
  SIGNET_EDGE_CERT_FILE: files.write("edge.crt", edgePair.cert),
});
const edge = useTestEdge(api, { environment: native("DNS:other.internal,DNS:api.internal") });
afterAll(() => files.remove());

let client: Provisioned;
beforeAll(async () => {
  client = await provision(api, {
    scopes: ["inference:read", "credentials:read"],
    credential: { certificate_thumbprints: [thumbprint(leaf), thumbprint(deep)] },
  });
});

const ask = async (path: string, options: CallOptions = {}) =>
  await call(path, { port: edge.port, ca: internal.cert, ...options });

async function token(pair = leaf): Promise<string> {
  const answer = await ask("/v1/auth/token", { pair, json: grant(client) });
  expect(answer).toMatchObject({ status: 200 });
  return String(answer.body["access_token"]);
}

const claims = (text: string): unknown =>
  JSON.parse(Buffer.from(text.split(".")[1] ?? "", "base64url").toString());

test("a token requested through the edge is bound to the client's certificate and works only with it", async () => {
  const bound = await token();
  expect(claims(bound)).toMatchObject({ cnf: { "x5t#S256": x5t(leaf) } });
  const other = await clientPair(clients);
  for (const path of ["/v1/credentials", "/v1/inference/x"]) {
    const headers = bearer(bound);
    expect(await ask(path, { pair: leaf, headers })).toMatchObject({ status: 200 });
    expect(await ask(path, { pair: other, headers })).toMatchObject({
      status: 401,
      body: { code: "CERT_BINDING_MISMATCH" },
    });
    expect(await ask(path, { headers })).toMatchObject({
      status: 401,
      body: { code: "CLIENT_CERT_REQUIRED" },
    });
  }
});

test("a request has one id from the edge, in the answer and in both logs", async () => {
  const forged = "req_0000000000000000000000ab";
  const headers = { ...bearer("a.b.c"), "x-request-id": forged };
  const answer = await ask("/v1/credentials", { pair: leaf, headers });
  expect(answer).toMatchObject({ status: 401, body: { code: "TOKEN_INVALID" } });
  const id = String(answer.headers["x-request-id"]);
  expect(answer.body["request_id"]).toBe(id);
  expect(id).not.toBe(forged);
  expect(api.log.filter((line) => line.includes(id))).not.toEqual([]);
  expect(edge.log.concat(api.log).join("\n")).not.toContain(forged);
  const refused = await ask("/v1/inference/x", { pair: leaf, headers });
  expect(edge.log.filter((line) => line.includes(String(refused.headers["x-request-id"])))).not.toEqual([]);
});

test("a certificate below an intermediate is accepted, also on a second connection", async () => {
  const chain = { key: deep.key, cert: `${deep.cert}\n${intermediate.cert}` };
  const first = await ask("/v1/auth/token", { pair: chain, json: grant(client), maxVersion: "TLSv1.2" });
  expect(first).toMatchObject({ status: 200, reused: false });
  const bound = String(first.body["access_token"]);
  expect(claims(bound)).toMatchObject({ cnf: { "x5t#S256": x5t(deep) } });
  const again = await ask("/v1/credentials", {
    pair: chain,
    session: first.session,
    headers: bearer(bound),
    maxVersion: "TLSv1.2",
  });
  expect(again).toMatchObject({ status: 200, reused: false });
});

test("a certificate of a foreign CA is ignored", async () => {
  const rogue = await clientPair(await newRoot("Clients"));
  expect(await ask("/v1/auth/token", { pair: rogue, json: grant(client) })).toMatchObject({
    status: 401,
    body: { code: "CLIENT_CERT_REQUIRED" },
  });
  expect(await ask("/v1/inference/x", { pair: rogue, headers: bearer(await token()) })).toMatchObject({
    status: 401,
    body: { code: "CLIENT_CERT_REQUIRED" },
  });
});

describe("the edge and the api give the same reason for rejecting a certificate", () => {
  const hourAgo = (): Date => new Date(Date.now() - 3_600_000);
  const cases: readonly [string, () => Promise<typeof leaf | undefined>, string][] = [
    ["no certificate", async () => await Promise.resolve(undefined), "missing"],
    ["an expired one", async () => await clientPair(clients, { notAfter: hourAgo() }), "expired"],
    ["one of a rogue authority", async () => await clientPair(await newRoot("Clients")), "not trusted"],
    [
      "a server certificate",
      async () => await clientPair(clients, { purposes: ["serverAuth"] }),
      "wrong purpose",
    ],
  ];
  test.each(cases)("%s", async (_name, made, problem) => {
    const pair = await made();
    const options: CallOptions = pair === undefined ? {} : { pair };
    const headers = { ...bearer(await token()), "x-signet-client-cert-problem": "revoked" };
    for (const answer of [
      await ask("/v1/inference/x", { ...options, headers }),
      await ask("/v1/credentials", { ...options, headers }),
    ]) {
      expect(answer).toMatchObject({ status: 401, body: { code: "CLIENT_CERT_REQUIRED" } });
      expect(answer.body["detail"]).toContain(`(${problem})`);
    }
    const refused = await ask("/v1/auth/token", { ...options, json: grant(client) });
    expect(refused.body["error_description"]).toContain(`(${problem})`);
  });
});

test("a revoked certificate is rejected at the edge", async () => {
  const pair = await clientPair(clients);
  const victim = await provision(api, {
    scopes: ["inference:read"],
    credential: { certificate_thumbprints: [thumbprint(pair)] },
  });
  const answer = await ask("/v1/auth/token", { pair, json: grant(victim) });
  const headers = bearer(String(answer.body["access_token"]));
  expect(await ask("/v1/inference/x", { pair, headers })).toMatchObject({ status: 200 });
  const revoked = await api.admin("POST", "/revocations", {
    kind: "cert",
    target: thumbprint(pair),
    reason: "test",
  });
  expect(revoked.status, revoked.text).toBeLessThan(300);
  await expect
    .poll(async () => (await ask("/v1/inference/x", { pair, headers })).status, { timeout: 50_000 })
    .toBe(401);
});

describe("an api whose certificate has none of the pinned names", () => {
  const mismatched = useTestEdge(api, { environment: native("DNS:elsewhere.internal") });

  test("gets no request, and the client gets a 503", async () => {
    const answer = await call("/v1/auth/token", {
      port: mismatched.port,
      ca: internal.cert,
      pair: leaf,
      json: grant(client),
    });
    expect(answer.status).toBe(503);
    expect(mismatched.log.join("\n")).toContain("SIGNET_EDGE_API_NAMES");
  });
});
