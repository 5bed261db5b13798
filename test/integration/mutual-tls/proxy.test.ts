/** Behind a proxy that terminates mutual TLS: whose Client-Cert header is trusted, and how far (RFC 9440). */
import { Agent } from "node:https";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import {
  certificateFiles,
  clientPair,
  headerValue,
  newRoot,
  serverPair,
  thumbprint,
  today,
  x5t,
} from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import { bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { issueWith } from "#test/support/weak-certificates.ts";
import { call, type CallAnswer, type CallOptions } from "#test/support/https-request.ts";

const EDGE = "spiffe://service.example/edge";
const HOUR_MS = 3_600_000;

const clients = await newRoot("Clients");
const rogue = await newRoot("Clients");
const proxies = await newRoot("Proxies");
const intermediate = await clients.issueAuthority({ subject: "CN=Intermediate", ...today() });
const leaf = await clientPair(clients);
const proxy = await clientPair(proxies, { sanUri: EDGE });
const server = await serverPair(proxies);
const files = certificateFiles();

const api = useTestApi({
  environment: {
    SIGNET_MTLS_MODE: "proxy",
    SIGNET_TLS_KEY_FILE: files.write("server.key", server.key),
    SIGNET_TLS_CERT_FILE: files.write("server.crt", server.cert),
    SIGNET_CLIENT_CA_FILE: files.write("clients.crt", clients.cert),
    SIGNET_PROXY_CA_FILE: files.write("proxies.crt", proxies.cert),
    SIGNET_PROXY_NAMES: `DNS:edge.internal,URI:${EDGE}`,
    SIGNET_TRUSTED_PROXIES: "127.0.0.1/32,10.0.0.0/8",
    SIGNET_PROXY_SOCKET: files.path("signet.sock"),
  },
});
afterAll(() => files.remove());

let client: Provisioned;
beforeAll(async () => {
  client = await provision(api, { environment: "development" });
});

/** Sends a token request as the proxy would forward it. */
async function forwarded(headers: Record<string, string>, options: CallOptions = {}): Promise<CallAnswer> {
  return await call("/v1/auth/token", {
    port: api.edgePort,
    ca: proxies.cert,
    pair: proxy,
    json: grant(client),
    headers,
    ...options,
  });
}

const header = (pair: { readonly cert: string }) => ({ "client-cert": headerValue(pair) });

test("a token is bound to the certificate that a trusted proxy names, and needs it again", async () => {
  const answer = await forwarded(header(leaf));
  expect(answer).toMatchObject({ status: 200 });
  const token = String(answer.body["access_token"]);
  const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as unknown;
  expect(claims).toMatchObject({ cnf: { "x5t#S256": x5t(leaf) } });

  const list = async (headers: Record<string, string>) =>
    await call("/v1/credentials", {
      port: api.edgePort,
      ca: proxies.cert,
      pair: proxy,
      headers: { ...bearer(token), ...headers },
    });
  expect(await list(header(leaf))).toMatchObject({ status: 200 });
  expect(await list(header(await clientPair(clients)))).toMatchObject({
    status: 401,
    body: { code: "CERT_BINDING_MISMATCH" },
  });
  expect(await list({})).toMatchObject({ status: 401, body: { code: "CLIENT_CERT_REQUIRED" } });
});

test("a proxy whose own certificate is revoked is no proxy any more, on its open connection", async () => {
  const pair = await clientPair(proxies, { sanUri: EDGE });
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: proxies.cert, ...pair });
  expect(await forwarded(header(leaf), { agent })).toMatchObject({ status: 200 });
  const revocation = { kind: "cert", target: thumbprint(pair) };
  expect(await api.admin("POST", "/revocations", revocation)).toMatchObject({ status: 200 });
  await eventually(async () => (await forwarded(header(leaf), { agent })).status === 400, "the revocation");
  expect(await forwarded(header(leaf), { agent })).toMatchObject({ body: { error: "invalid_request" } });
  agent.destroy();
});

test("a request id is accepted only from a trusted proxy and in our format", async () => {
  const given = "req_0123456789abcdefghjkmnpq";
  const idWith = async (id: string, options: CallOptions = {}): Promise<unknown> =>
    (await forwarded({ "x-request-id": id }, options)).headers["x-request-id"];
  expect(await idWith(given)).toBe(given);
  for (const other of ["", "abc", `${given}0`, given.replace("req_", "ten_"), given.toUpperCase()]) {
    expect(await idWith(other), other).toMatch(/^req_[0-9a-hjkmnp-tv-z]{24}$/);
  }
  const twice = ["X-Request-Id", given, "X-Request-Id", given, "Host", "api"];
  const answer = await forwarded({}, { rawHeaders: twice, json: undefined });
  expect(answer.headers["x-request-id"]).not.toContain(given);
  for (const stranger of [{ pair: undefined }, { pair: leaf }, { pair: await clientPair(proxies) }]) {
    const id = await idWith(given, stranger).catch(() => "refused");
    expect(id).not.toBe(given);
  }
});

test.each([
  ["with a weak key", { key: "RSA-1024" }],
  ["signed with SHA-1", { hash: "SHA-1" }],
] as const)("a certificate %s is rejected even from a trusted proxy", async (_what, request) => {
  const weak = await issueWith(clients, request);
  expect(await forwarded(header(weak))).toMatchObject({
    status: 401,
    body: { code: "CLIENT_CERT_REQUIRED", error_description: expect.stringContaining("(too weak)") },
  });
});

test("a chain through a weak intermediate is rejected", async () => {
  const weak = await issueWith(clients, { hash: "SHA-1", subject: "CN=Weak", authority: true });
  const below = await issueWith({ ...weak, subject: "CN=Weak" }, {});
  expect(await forwarded({ ...header(below), "client-cert-chain": headerValue(weak) })).toMatchObject({
    status: 401,
    body: { error_description: expect.stringContaining("(too weak)") },
  });
});

test("a chain through several intermediates is accepted if complete, in any order", async () => {
  const below = await intermediate.issueAuthority({ subject: "CN=Below", ...today() });
  const deep = await clientPair(below);
  const chain = [intermediate, below].map(headerValue).join(", ");
  expect(await forwarded({ ...header(deep), "client-cert-chain": chain })).toMatchObject({ status: 200 });
  expect(await forwarded({ ...header(deep), "client-cert-chain": headerValue(below) })).toMatchObject({
    status: 401,
  });
});

describe("a certificate from a trusted proxy is verified again:", () => {
  const cases: readonly [string, () => Promise<Record<string, string>>, string][] = [
    ["no certificate", async () => ({}), "missing"],
    ["one of a rogue authority of the same name", async () => header(await clientPair(rogue)), "not trusted"],
    ["one of the proxies' authority", async () => header(await clientPair(proxies)), "not trusted"],
    [
      "an expired one",
      async () => header(await clientPair(clients, { notAfter: new Date(Date.now() - 60_000) })),
      "expired",
    ],
    [
      "one that is not valid yet",
      async () => header(await clientPair(clients, { notBefore: new Date(Date.now() + HOUR_MS) })),
      "not valid yet",
    ],
    [
      "a server certificate",
      async () => header(await clientPair(clients, { purposes: ["serverAuth"] })),
      "wrong purpose",
    ],
    ["a CA certificate", async () => header(intermediate), "wrong purpose"],
    ["the root certificate", async () => header(clients), "wrong purpose"],
    ["one without its intermediate", async () => header(await clientPair(intermediate)), "not trusted"],
    [
      "one with the wrong chain",
      async () => ({
        ...header(await clientPair(intermediate)),
        "client-cert-chain": headerValue(
          await rogue.issueAuthority({ subject: "CN=Intermediate", ...today() }),
        ),
      }),
      "not trusted",
    ],
    [
      "one that a client signed without being a CA",
      async () => {
        const pretender = await clients.issueAuthority({
          subject: "CN=Pretender",
          ...today(),
          authority: { pathLength: 0 },
        });
        const below = await pretender.issueAuthority({ subject: "CN=Below", ...today() });
        const chain = [below, pretender].map(headerValue).join(", ");
        return { ...header(await clientPair(below)), "client-cert-chain": chain };
      },
      "not trusted",
    ],
  ];
  test.each(cases)("%s", async (_name, headers, problem) => {
    expect(await forwarded(await headers())).toMatchObject({
      status: 401,
      body: {
        error: "invalid_client",
        code: "CLIENT_CERT_REQUIRED",
        error_description: expect.stringContaining(`(${problem})`),
      },
    });
  });

  test("one that was accepted before, once it has expired", async () => {
    const short = await clientPair(clients, { notAfter: new Date(api.clock.now() + HOUR_MS) });
    expect(await forwarded(header(short))).toMatchObject({ status: 200 });
    api.clock.advance(2 * HOUR_MS);
    expect(await forwarded(header(short))).toMatchObject({ status: 401 });
  });
});

const value = headerValue(leaf);
test.each([
  ["no colons", value.slice(1, -1)],
  ["one colon", value.slice(0, -1)],
  ["an empty value", "::"],
  ["parameters", `${value};a=1`],
  ["two values in one header", `${value}, ${value}`],
  ["a space from a folded line", `${value.slice(0, 65)} ${value.slice(65)}`],
  [
    "base64url",
    value
      .replaceAll("+", "-")
      .replaceAll("/", "_")
      .replace(/[A-Za-z]:$/, "-:"),
  ],
  ["missing padding", `:${Buffer.from("ab").toString("base64").replaceAll("=", "")}:`],
  ["an invalid certificate", ":AAAA:"],
  [
    "bytes after the certificate",
    `:${Buffer.concat([Buffer.from(value.slice(1, -1), "base64"), Buffer.from("x")]).toString("base64")}:`,
  ],
  ["PEM", encodeURIComponent(leaf.cert)],
])("a header with %s is a 400", async (_name, text) => {
  expect(await forwarded({ "client-cert": text })).toMatchObject({
    status: 400,
    body: { code: "INVALID_REQUEST", error_description: "Header client-cert is malformed (RFC 9440)." },
  });
});

test.each([
  ["client-cert", ["Client-Cert", value, "client-cert", value]],
  ["client-cert-chain", ["Client-Cert", value, "Client-Cert-Chain", value, "Client-Cert-Chain", value]],
])("a repeated header %s is a 400", async (name, pairs) => {
  const answer = await forwarded(
    {},
    {
      rawHeaders: [
        "Host",
        "127.0.0.1",
        "Content-Type",
        "application/json",
        "Connection",
        "close",
        "Transfer-Encoding",
        "chunked",
        ...pairs,
      ],
    },
  );
  expect(answer).toMatchObject({
    status: 400,
    body: { error: "invalid_request", error_description: `Header ${name} must occur only once.` },
  });
});

test("a chain without a certificate, or one that is too long, is a 400", async () => {
  expect(await forwarded({ "client-cert-chain": value })).toMatchObject({ status: 400 });
  const long = Array.from({ length: 5 }, () => headerValue(intermediate)).join(", ");
  expect(await forwarded({ ...header(leaf), "client-cert-chain": long })).toMatchObject({ status: 400 });
});

describe("a header from an untrusted peer is a 400 and is logged", () => {
  const cases: readonly [string, () => Promise<CallOptions>][] = [
    ["a peer without a certificate", async () => ({ ca: proxies.cert, port: api.edgePort })],
    [
      "a certificate of the proxies' authority with another name",
      async () => ({
        ca: proxies.cert,
        port: api.edgePort,
        pair: await clientPair(proxies, { sanUri: "spiffe://service.example/other" }),
      }),
    ],
    [
      "the pinned name in a certificate of another authority",
      async () => ({
        ca: proxies.cert,
        port: api.edgePort,
        pair: await clientPair(clients, { sanUri: EDGE }),
      }),
    ],
    [
      "the pinned name in a certificate for servers",
      async () => ({
        ca: proxies.cert,
        port: api.edgePort,
        pair: await clientPair(proxies, { sanUri: EDGE, purposes: ["serverAuth"] }),
      }),
    ],
    [
      "the proxy's own certificate from another address",
      async () => ({ ca: proxies.cert, port: api.edgePort, pair: proxy, localAddress: "127.0.0.2" }),
    ],
    ["the plain listener", async () => ({ port: api.publicPort })],
  ];
  test.each(cases)("%s", async (_name, options) => {
    const before = api.log.length;
    const answer = await call("/v1/auth/token", {
      ...(await options()),
      json: grant(client),
      headers: header(leaf),
    });
    expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
    expect(api.log.slice(before).join()).toContain("untrusted peer");
  });

  test("a client that bypasses the proxy gets no token with its own certificate", async () => {
    const answer = await call("/v1/auth/token", {
      ca: proxies.cert,
      port: api.edgePort,
      pair: leaf,
      json: grant(client),
    });
    expect(answer).toMatchObject({ status: 401, body: { code: "CLIENT_CERT_REQUIRED" } });
  });
});

describe("the unix socket", () => {
  const request = async (headers: Record<string, string>) =>
    await call("/v1/auth/token", { socketPath: files.path("signet.sock"), json: grant(client), headers });

  test("belongs to a trusted proxy", async () => {
    expect(await request(header(leaf))).toMatchObject({ status: 200 });
  });

  test("requires and verifies a certificate like the TCP listener", async () => {
    expect(await request({})).toMatchObject({ status: 401, body: { code: "CLIENT_CERT_REQUIRED" } });
    expect(await request(header(await clientPair(rogue)))).toMatchObject({ status: 401 });
  });
});
