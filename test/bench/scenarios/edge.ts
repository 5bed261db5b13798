/** Compares the edge to a bare @fastify/http-proxy, with the same upstream, in one run. */
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ServerProcess, StopStep } from "#processes/embedded/server-process.ts";
import { openDevelopmentCa } from "#http/mutual-tls/dev-ca.ts";
import { freePort } from "#test/support/free-port.ts";
import { accessToken, type Tenant } from "../environment/provision.ts";
import type { World } from "../environment/world.ts";
import type { HttpLoadPlan } from "../load/http-load.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { median, startYardstick, type Subject, type Turn, turn, TURNS } from "./http-turns.ts";

const PATH = "/v1/inference/models";
const SCOPE = "webhooks:read";
/** The capacity of the edge's token cache. */
const DISTINCT_TOKENS = 10_000;
const MINTED_AT_ONCE = 16;
const STOP: readonly StopStep[] = [["SIGTERM", 5_000]];
const UPSTREAM = fileURLToPath(new URL("../load/upstream-process.mjs", import.meta.url));
const BARE_PROXY = fileURLToPath(new URL("../load/bare-proxy-process.mjs", import.meta.url));

interface TlsFiles {
  readonly server: { readonly keyFile: string; readonly certFile: string };
  readonly client: NonNullable<HttpLoadPlan["tls"]>;
}

interface Pair {
  readonly bare: Subject;
  readonly edge: Subject;
}

async function openTls(bench: Bench): Promise<TlsFiles> {
  const ca = await openDevelopmentCa({
    directory: join(bench.stack.directory, "edge-ca"),
    nowMs: Date.now(),
  });
  const { keyFile, certFile } = await ca.client("bench", "spiffe://signet.development/bench");
  return { server: ca.server, client: { caFile: ca.caFile, keyFile, certFile } };
}

async function startBare(
  bench: Bench,
  upstream: string,
  tls: TlsFiles | undefined,
): Promise<{ port: number; server: ServerProcess }> {
  const port = await freePort();
  const files = tls === undefined ? [] : [tls.server.keyFile, tls.server.certFile, tls.client.caFile];
  const name = tls === undefined ? "bare-proxy" : "bare-proxy-tls";
  const server = await startYardstick(bench, name, [BARE_PROXY, String(port), upstream, ...files]);
  return { port, server };
}

async function writeRoutes(bench: Bench, upstream: string): Promise<string> {
  const file = join(bench.stack.directory, "edge-routes.json");
  const table = {
    upstreams: { bench: { url: upstream, identity_key: randomBytes(32).toString("base64") } },
    routes: [{ method: "GET", path: PATH, scope: SCOPE, upstream: "bench" }],
  };
  await writeFile(file, JSON.stringify(table));
  return file;
}

/** Writes a file with one Authorization value per line, each with its own token. */
async function mintTokens(bench: Bench, world: World, tenant: Tenant): Promise<string> {
  const lines: string[] = [];
  const count = bench.events(DISTINCT_TOKENS);
  let begun = 0;
  const mint = async (): Promise<void> => {
    while (begun < count) {
      begun += 1;
      lines.push(`Bearer ${await accessToken(world.signet, tenant)}`);
    }
  };
  await Promise.all(Array.from({ length: MINTED_AT_ONCE }, mint));
  const file = join(bench.stack.directory, "edge-tokens");
  await writeFile(file, lines.join("\n"));
  return file;
}

function subjectOf(port: number, roots: Subject["roots"], token: string, tls: TlsFiles | undefined): Subject {
  return {
    plan: {
      host: "127.0.0.1",
      port,
      method: "GET",
      path: PATH,
      headers: [`Authorization: Bearer ${token}`],
      body: "",
      // The database is available, so any 503 for a stale feed is false.
      countedStatuses: ["503"],
      ...(tls === undefined ? {} : { tls: tls.client }),
    },
    roots,
  };
}

async function inTurns(
  bench: Bench,
  { bare, edge }: Pair,
  shape: Partial<HttpLoadPlan> = {},
): Promise<{ readonly bare: Turn[]; readonly edge: Turn[] }> {
  const turns = { bare: [] as Turn[], edge: [] as Turn[] };
  for (let number = 0; number < TURNS; number += 1) {
    turns.bare.push(await turn(bench, bare, shape));
    turns.edge.push(await turn(bench, edge, shape));
  }
  return turns;
}

function p50Of(turns: readonly Turn[]): number {
  return median(turns, ({ latencyMs }) => latencyMs.p50).latencyMs.p50;
}

function staleOf(turns: readonly Turn[]): number {
  return turns.reduce((sum, { statuses }) => sum + (statuses["503"] ?? 0), 0);
}

async function measure(bench: Bench, world: World, tenant: Tenant): Promise<Record<string, unknown>> {
  const tls = await openTls(bench);
  const upstreamPort = await freePort();
  const upstream = `http://127.0.0.1:${upstreamPort}`;
  const upstreamServer = await startYardstick(bench, "upstream", [UPSTREAM, String(upstreamPort)]);
  const stops = [async () => await upstreamServer.stop(STOP)];
  const routes = await writeRoutes(bench, upstream);
  const token = await accessToken(world.signet, tenant);
  const pair = async (withTls: TlsFiles | undefined): Promise<Pair> => {
    const proxy = await startBare(bench, upstream, withTls);
    const edge = await world.startEdge({
      SIGNET_EDGE_ROUTES: routes,
      ...(withTls === undefined
        ? { SIGNET_MTLS_MODE: "off" }
        : {
            SIGNET_MTLS_MODE: "native",
            SIGNET_TLS_KEY_FILE: withTls.server.keyFile,
            SIGNET_TLS_CERT_FILE: withTls.server.certFile,
            SIGNET_CLIENT_CA_FILE: withTls.client.caFile,
          }),
    });
    stops.push(
      async () => await proxy.server.stop(STOP),
      async () => await edge.server.stop(),
    );
    return {
      bare: subjectOf(proxy.port, { bare_proxy: proxy.server.pid }, token, withTls),
      edge: subjectOf(edge.port, { signet_edge: edge.server.pid }, token, withTls),
    };
  };
  try {
    const plain = await pair(undefined);
    const mutual = await pair(tls);
    const alone = await inTurns(bench, plain, { connections: 1 });
    const authorizationsFile = await mintTokens(bench, world, tenant);
    const distinct = await turn(
      bench,
      { ...plain.edge, plan: { ...plain.edge.plan, headers: [] } },
      { connections: 1, warmUpSeconds: 0, seconds: 60, authorizationsFile, once: true },
    );
    const saturated = await inTurns(bench, plain);
    const saturatedTls = await inTurns(bench, mutual);
    const [bare, edge] = [median(saturated.bare), median(saturated.edge)];
    const [bareTls, edgeTls] = [median(saturatedTls.bare), median(saturatedTls.edge)];
    return {
      bare,
      edge,
      bare_mutual_tls: bareTls,
      edge_mutual_tls: edgeTls,
      distinct_tokens: distinct,
      turns: { alone, saturated, saturated_tls: saturatedTls },
      added_p50_ms: round(p50Of(alone.edge) - p50Of(alone.bare), 3),
      added_p50_distinct_ms: round(distinct.latencyMs.p50 - p50Of(alone.bare), 3),
      share: round(edge.perSecond / bare.perSecond, 3),
      share_mutual_tls: round(edgeTls.perSecond / bareTls.perSecond, 3),
      false_stale: staleOf([...saturated.edge, ...saturatedTls.edge, ...alone.edge, distinct]),
    };
  } finally {
    await Promise.all(stops.map(async (stop) => await stop()));
  }
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "edge");
  const { tenants } = await world.group({ name: "edge", tenants: 1, endpointsPerTenant: 1, fanOut: "one" });
  const [tenant] = tenants;
  if (tenant === undefined) {
    throw new Error("the tenant was not created");
  }
  const finding = await measure(bench, world, tenant);
  bench.findings["edge"] = finding;
  bench.log(JSON.stringify({ ...finding, turns: undefined }, undefined, 2));
  await world.stop();
}

export const edge: Scenario = {
  name: "edge",
  about:
    "the edge beside a bare @fastify/http-proxy: added latency with one token and 10,000, requests/s, plain and mutual TLS",
  run: runScenario,
};
