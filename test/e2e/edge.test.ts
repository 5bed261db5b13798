/** `signet edge` as a process in production: required settings, invalid settings, and signals. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { Agent, request as httpsRequest } from "node:https";
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import { useTestApi } from "../support/api.ts";
import {
  certificateFiles,
  clientPair,
  newRoot,
  serverPair,
  thumbprint,
  today,
} from "../support/certificates.ts";
import { startUpstream, type TestUpstream } from "../support/edge.ts";
import { eventually } from "../support/eventually.ts";
import { bearer, grant, provision } from "../support/factories.ts";
import { freePort } from "../support/free-port.ts";
import { call, type CallAnswer, type CallOptions } from "../support/https-request.ts";
import { allowMinutes } from "../support/limits.ts";
import {
  imageEnvironment,
  type ProcessOptions,
  productionImage,
  type SpawnedProcess,
  spawnProcess,
} from "../support/processes.ts";

allowMinutes(3);

const TIMEOUT_MS = 120_000;
const PUBLIC_URL = "https://edge.example";
const EDGE = "spiffe://service.example/edge";
const LOADERS = 8;
const RELOADS = 10;

const root = await newRoot("Edge");
const [leaf, server, edgePair] = [
  await clientPair(root),
  await serverPair(root),
  await clientPair(root, { sanUri: EDGE }),
];
const apiPair = await root.issue({
  subject: "CN=api",
  names: [{ type: "dns", value: "api.internal" }],
  purposes: ["serverAuth"],
  ...today(),
});
const files = certificateFiles();
const ca = files.write("ca.crt", root.cert);
const serverFiles = {
  SIGNET_TLS_KEY_FILE: files.write("server.key", server.key),
  SIGNET_TLS_CERT_FILE: files.write("server.crt", server.cert),
  SIGNET_CLIENT_CA_FILE: ca,
};
const routes = files.path("routes.json");

const api = useTestApi({
  environment: {
    SIGNET_PUBLIC_URL: PUBLIC_URL,
    SIGNET_MTLS_MODE: "proxy",
    SIGNET_TLS_KEY_FILE: files.write("api.key", apiPair.key),
    SIGNET_TLS_CERT_FILE: files.write("api.crt", apiPair.cert),
    SIGNET_CLIENT_CA_FILE: ca,
    SIGNET_PROXY_CA_FILE: ca,
    SIGNET_PROXY_NAMES: `URI:${EDGE}`,
    SIGNET_TRUSTED_PROXIES: "127.0.0.1/32",
  },
});

let image: string;
let upstream: TestUpstream;
let port: number;
/** The edge's complete environment. */
let environment: Environment;
const running: SpawnedProcess[] = [];

function writeRoutes(...paths: readonly string[]): void {
  const identityKey = randomBytes(32).toString("base64");
  files.write(
    "routes.json",
    JSON.stringify({
      upstreams: { data: { url: upstream.origin, identity_key: identityKey } },
      routes: paths.map((path) => ({ method: "GET", path, scope: "inference:read", upstream: "data" })),
    }),
  );
}

beforeAll(async () => {
  image = productionImage();
  upstream = await startUpstream();
  writeRoutes("/v1/inference/{model}");
  port = await freePort();
  environment = {
    ...serverFiles,
    SIGNET_ENV: "production",
    SIGNET_DATABASE_URL: api.database.url,
    SIGNET_PUBLIC_URL: PUBLIC_URL,
    SIGNET_EDGE_LISTEN: `127.0.0.1:${port}`,
    SIGNET_METRICS_LISTEN: `127.0.0.1:${await freePort()}`,
    SIGNET_EDGE_ROUTES: routes,
    SIGNET_EDGE_API_URL: `https://127.0.0.1:${api.edgePort}`,
    SIGNET_EDGE_API_CA_FILE: ca,
    SIGNET_EDGE_API_NAMES: "DNS:api.internal",
    SIGNET_EDGE_KEY_FILE: files.write("edge.key", edgePair.key),
    SIGNET_EDGE_CERT_FILE: files.write("edge.crt", edgePair.cert),
  };
});
afterEach(async () => {
  upstream.behave(undefined);
  await Promise.all(running.splice(0).map(async (edge) => await edge.stop("SIGKILL")));
});
afterAll(async () => {
  await upstream.close();
  files.remove();
});

function optionsOf(changes: Environment = {}): ProcessOptions {
  return {
    command: ["node", "dist/src/processes/main.js", "edge"],
    cwd: image,
    environment: { ...environment, ...changes, ...imageEnvironment() },
  };
}

async function startEdge(): Promise<SpawnedProcess> {
  const edge = spawnProcess(optionsOf());
  running.push(edge);
  await eventually(
    () => edge.state() !== undefined || edge.output().includes('"edge started"'),
    "the edge",
    TIMEOUT_MS,
  );
  expect(edge.state(), edge.output()).toBeUndefined();
  return edge;
}

const ask = async (path: string, options: CallOptions = {}): Promise<CallAnswer> =>
  await call(path, { port, ca: root.cert, pair: leaf, ...options });

/** Requests a token through the edge. */
async function newToken(): Promise<string> {
  const credential = { certificate_thumbprints: [thumbprint(leaf)] };
  const client = await provision(api, { scopes: ["inference:read", "credentials:read"], credential });
  const answer = await ask("/v1/auth/token", { json: grant(client) });
  expect(answer).toMatchObject({ status: 200 });
  return String(answer.body["access_token"]);
}

test("in production it needs no pepper, no key-encryption key and no Temporal, and serves data plane and API", async () => {
  const secrets = ["SIGNET_PEPPER", "SIGNET_KEK", "TEMPORAL_ADDRESS", "SIGNET_OPERATOR_TOKEN"];
  expect(Object.keys(environment).filter((name) => secrets.some((start) => name.startsWith(start)))).toEqual(
    [],
  );
  const edge = await startEdge();
  const headers = bearer(await newToken());
  expect(await ask("/v1/inference/x", { headers })).toMatchObject({
    status: 200,
    body: { from: "upstream" },
  });
  expect(await ask("/v1/credentials", { headers })).toMatchObject({ status: 200 });
  expect(await ask("/v1/inference/x", { headers, pair: undefined })).toMatchObject({ status: 401 });
  await eventually(
    async () => (await fetch(`http://${environment["SIGNET_METRICS_LISTEN"]}/readyz`)).status === 200,
    "the edge to be ready",
  );
  expect(await edge.stop()).toMatchObject({ code: 0 });
});

describe("an edge does not start", () => {
  const NEEDS = "SIGNET_EDGE_API_URL with https needs ";
  test.each<[string, () => Environment, string]>([
    ...[
      "SIGNET_EDGE_API_CA_FILE",
      "SIGNET_EDGE_API_NAMES",
      "SIGNET_EDGE_KEY_FILE",
      "SIGNET_EDGE_CERT_FILE",
    ].map((name): [string, () => Environment, string] => [
      `without ${name}`,
      () => ({ [name]: undefined }),
      `${NEEDS}SIGNET_EDGE_API_CA_FILE, SIGNET_EDGE_API_NAMES, SIGNET_EDGE_KEY_FILE and SIGNET_EDGE_CERT_FILE`,
    ]),
    [
      "in front of an api without TLS",
      () => ({ SIGNET_EDGE_API_URL: "http://127.0.0.1:1" }),
      "SIGNET_EDGE_API_URL must be https in production",
    ],
    [
      "in front of a path of the api",
      () => ({ SIGNET_EDGE_API_URL: "https://127.0.0.1:1/v1" }),
      "SIGNET_EDGE_API_URL must not have a path",
    ],
    ["without mutual TLS", () => ({ SIGNET_MTLS_MODE: "off" }), "SIGNET_MTLS_MODE must not be off"],
    ["without an address", () => ({ SIGNET_PUBLIC_URL: undefined }), "SIGNET_PUBLIC_URL must be set"],
    ["without a database", () => ({ SIGNET_DATABASE_URL: undefined }), "SIGNET_DATABASE_URL must be set"],
  ])("%s", (_name, changes, because) => {
    expect(loadConfig(environment, "edge")).toBeDefined();
    expect(() => loadConfig({ ...environment, ...changes() }, "edge")).toThrow(because);
  });

  // The first stands for all settings above.
  test.concurrent.each<[string, () => Environment, string]>([
    [
      "without an upstream",
      () => ({ SIGNET_EDGE_API_URL: undefined, SIGNET_EDGE_ROUTES: undefined }),
      "SIGNET_EDGE_API_URL or SIGNET_EDGE_ROUTES must be set",
    ],
    ["with a missing table", () => ({ SIGNET_EDGE_ROUTES: "/none.json" }), "SIGNET_EDGE_ROUTES: "],
    [
      "with an invalid table",
      () => ({ SIGNET_EDGE_ROUTES: files.write("bad.json", '{"upstreams":{},"routes":[{}]}') }),
      "SIGNET_EDGE_ROUTES: /routes/0",
    ],
    [
      "with a certificate for the api that does not match the key",
      () => ({ SIGNET_EDGE_CERT_FILE: environment["SIGNET_TLS_CERT_FILE"] }),
      "edge.key",
    ],
    ["without the clients' authority", () => ({ SIGNET_CLIENT_CA_FILE: undefined }), "SIGNET_CLIENT_CA_FILE"],
  ])("%s", async (_name, changes, because) => {
    // Two edges of one machine have different listeners.
    const ports = { SIGNET_METRICS_LISTEN: `127.0.0.1:${await freePort()}` };
    const edge = spawnProcess(optionsOf({ ...ports, ...changes() }));
    expect(await edge.ended).toMatchObject({ code: 1 });
    expect(edge.output()).toContain(because);
    expect(edge.output()).not.toContain("edge started");
  });
});

/** Holds responses to this path until released; answers all others at once. */
function holdSlow(begin: (response: ServerResponse) => void): { readonly held: ServerResponse[] } {
  const held: ServerResponse[] = [];
  upstream.behave((request, response) => {
    if (request.url === "/v1/inference/slow") {
      begin(response);
      held.push(response);
    } else {
      response.end("ok");
    }
  });
  return { held };
}

test("SIGHUP reloads the table, and no request is lost under load", async () => {
  const edge = await startEdge();
  const headers = bearer(await newToken());
  const { held } = holdSlow(() => undefined);
  const slow = ask("/v1/inference/slow", { headers });
  await eventually(() => held.length === 1, "the slow request");

  const readings = (): number => edge.output().split("route table reloaded").length - 1;
  const agent = new Agent({ keepAlive: true, ca: root.cert, cert: leaf.cert, key: leaf.key });
  const statuses = new Map<number, number>();
  const loaded = new AbortController();
  const load = Array.from({ length: LOADERS }, async () => {
    while (!loaded.signal.aborted) {
      const { status } = await ask("/v1/inference/x", { headers, agent });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  });
  const answered = (): number => statuses.get(200) ?? 0;
  for (let index = 0; index < RELOADS; index += 1) {
    // The file has not changed, so only the signal can cause a reload.
    const [before, soFar] = [readings(), answered()];
    edge.signal("SIGHUP");
    await eventually(() => readings() > before && answered() > soFar, "the table to be read", TIMEOUT_MS);
  }
  writeRoutes("/v1/inference/{model}", "/v1/new");
  edge.signal("SIGHUP");
  await eventually(
    async () => (await ask("/v1/new", { headers, agent })).status === 200,
    "the new route",
    TIMEOUT_MS,
  );
  loaded.abort();
  await Promise.all(load);
  held[0]?.end("slow");
  expect(await slow).toMatchObject({ status: 200, text: "slow" });
  agent.destroy();
  expect([...statuses.keys()]).toEqual([200]);
  expect(edge.state()).toBeUndefined();
});

test("SIGTERM completes slow responses, whether they have started or not, and refuses new connections", async () => {
  const edge = await startEdge();
  const headers = bearer(await newToken());
  let started = 0;
  const { held } = holdSlow((response) => {
    started += 1;
    if (started === 1) {
      response.writeHead(200, { "content-type": "text/plain" });
      response.write("one ");
    }
  });
  const begun = await eventually(async () => {
    const stream = httpsRequest({
      host: "127.0.0.1",
      port,
      path: "/v1/inference/slow",
      headers,
      ca: root.cert,
      key: leaf.key,
      cert: leaf.cert,
      agent: false,
    });
    stream.end();
    const [response] = (await once(stream, "response")) as [IncomingMessage];
    return response.statusCode === 200 && response;
  }, "the beginning of a response");
  let text = "";
  begun.setEncoding("utf8").on("data", (piece: string) => (text += piece));
  const waiting = ask("/v1/inference/slow", { headers });
  await eventually(() => held.length === 2 && text === "one ", "both requests");

  edge.signal("SIGTERM");
  const refused = async (): Promise<boolean> =>
    await ask("/healthz").then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === "ECONNREFUSED",
    );
  await eventually(refused, "the listener to close", TIMEOUT_MS);
  expect(edge.state()).toBeUndefined();
  held[0]?.end("two");
  await once(begun, "end");
  expect(text).toBe("one two");
  held[1]?.end("late");
  expect(await waiting).toMatchObject({ status: 200, text: "late" });
  expect(await edge.ended).toEqual({ code: 0, signal: null });
});
