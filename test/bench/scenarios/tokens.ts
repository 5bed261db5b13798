/** Tokens per second beside oidc-provider, over plain HTTP and mutual TLS, on one machine in one run. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { randomBytes } from "node:crypto";
import { logTail, type ServerProcess, startServer } from "../../../src/embedded/server-process.ts";
import { type DevelopmentCa, openDevelopmentCa } from "../../../src/mutual-tls/dev-ca.ts";
import { freePort } from "../../support/free-port.ts";
import type { Tenant } from "../environment/provision.ts";
import { untilReady } from "../environment/until-ready.ts";
import type { World } from "../environment/world.ts";
import { runHttpLoad, type HttpLoadPlan, type HttpLoadResult } from "../load/http-load.ts";
import { cpuSeconds } from "../measure/process-tree.ts";
import { percentiles } from "../measure/statistics.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

const CONNECTIONS = 32;
const HANDSHAKING = 8;
const WARM_UP_SECONDS = 3;
const SECONDS = 10;
/** The machine is shared: each server has several turns, one after the other, and its median counts. */
const TURNS = 3;
const OIDC_PROVIDER = fileURLToPath(new URL("../load/oidc-provider-process.mjs", import.meta.url));

interface Subject {
  readonly plan: Omit<HttpLoadPlan, "warmUpSeconds" | "seconds" | "connections">;
  /** Processes whose CPU counts. */
  readonly roots: Readonly<Record<string, number>>;
}

interface Turn {
  readonly perSecond: number;
  readonly cpuPerThousand: number;
  readonly latencyMs: ReturnType<typeof percentiles>;
}

function form(clientId: string, clientSecret: string): Pick<HttpLoadPlan, "headers" | "body"> {
  const basic = Buffer.from(`${clientId}:${clientSecret}`).toString("base64");
  return {
    headers: [`Authorization: Basic ${basic}`, "Content-Type: application/x-www-form-urlencoded"],
    body: "grant_type=client_credentials&scope=webhooks%3Aread",
  };
}

function describe(result: HttpLoadResult, cpuS: number): Turn {
  const perSecond = result.latencies.length / result.seconds;
  const { p50, p95, p99, max } = percentiles(result.latencies);
  return {
    perSecond: round(perSecond, 0),
    cpuPerThousand: round((cpuS / result.latencies.length) * 1_000, 3),
    latencyMs: { p50: round(p50, 2), p95: round(p95, 2), p99: round(p99, 2), max: round(max, 2) },
  };
}

async function turn(bench: Bench, subject: Subject, shape: Partial<HttpLoadPlan> = {}): Promise<Turn> {
  const plan = {
    connections: CONNECTIONS,
    warmUpSeconds: bench.seconds(WARM_UP_SECONDS),
    seconds: bench.seconds(SECONDS),
    ...subject.plan,
    ...shape,
  };
  const total = (): number => Object.values(cpuSeconds(subject.roots)).reduce((sum, value) => sum + value, 0);
  const before = total();
  const result = await runHttpLoad(plan);
  // The warm-up's CPU is in it, and so are its tokens by their share of the time.
  const share = plan.seconds / (plan.seconds + plan.warmUpSeconds);
  return describe(result, (total() - before) * share);
}

function median(turns: readonly Turn[]): Turn {
  const sorted = turns.toSorted((a, b) => a.perSecond - b.perSecond);
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (middle === undefined) {
    throw new Error("there was no turn");
  }
  return middle;
}

async function startOidcProvider(bench: Bench): Promise<{ server: ServerProcess; subject: Subject }> {
  const port = await freePort();
  const [clientId, clientSecret] = ["bench", randomBytes(32).toString("hex")];
  const logFile = join(bench.stack.directory, "oidc-provider.log");
  const server = await startServer({
    command: process.execPath,
    args: [OIDC_PROVIDER, String(port), clientId, clientSecret],
    cwd: process.cwd(),
    env: { PATH: "/usr/bin:/bin", NODE_ENV: "production" },
    logFile,
  });
  bench.stack.janitor.mind(server.pid, "SIGTERM");
  await untilReady("oidc-provider", { server, logFile }, async () => logTail(logFile).includes("listening"));
  const plan = {
    host: "127.0.0.1",
    port,
    method: "POST" as const,
    path: "/token",
    ...form(clientId, clientSecret),
  };
  return { server, subject: { plan, roots: { oidc_provider: server.pid } } };
}

function signetSubject(world: World, tenant: Tenant, tls?: HttpLoadPlan["tls"]): Subject {
  const { hostname, port } = new URL(tls === undefined ? world.signet.apiUrl : world.signet.edgeUrl);
  return {
    plan: {
      host: hostname,
      port: Number(port),
      method: "POST",
      path: "/v1/auth/token",
      ...form(tenant.clientId, tenant.clientSecret),
      ...(tls === undefined ? {} : { tls }),
    },
    roots: world.roots.system,
  };
}

async function clientCertificate(ca: DevelopmentCa): Promise<NonNullable<HttpLoadPlan["tls"]>> {
  const { keyFile, certFile } = await ca.client("bench", "spiffe://signet.development/bench");
  return { caFile: ca.caFile, keyFile, certFile };
}

async function runScenario(bench: Bench): Promise<void> {
  const directory = join(bench.stack.directory, "dev-ca");
  const ca = await openDevelopmentCa({ directory, nowMs: Date.now() });
  const world = await bench.world(
    {
      SIGNET_MTLS_MODE: "native",
      SIGNET_TLS_KEY_FILE: ca.server.keyFile,
      SIGNET_TLS_CERT_FILE: ca.server.certFile,
      SIGNET_CLIENT_CA_FILE: ca.caFile,
    },
    "tokens",
  );
  const { tenants } = await world.group({
    name: "tokens",
    tenants: 1,
    endpointsPerTenant: 1,
    fanOut: "one",
  });
  const [tenant] = tenants;
  if (tenant === undefined) {
    throw new Error("the tenant was not made");
  }
  const plain = signetSubject(world, tenant);
  const mutual = signetSubject(world, tenant, await clientCertificate(ca));
  const oidc = await startOidcProvider(bench);
  const turns = { plain: [] as Turn[], mutual: [] as Turn[], oidc: [] as Turn[] };
  for (let number = 0; number < TURNS; number += 1) {
    turns.oidc.push(await turn(bench, oidc.subject));
    turns.plain.push(await turn(bench, plain));
    turns.mutual.push(await turn(bench, mutual));
  }
  await oidc.server.stop([["SIGTERM", 5_000]]);
  const [theirs, ours, bound] = [median(turns.oidc), median(turns.plain), median(turns.mutual)];
  const half = await turn(bench, plain, { perSecond: Math.floor(ours.perSecond / 2) });
  const handshakes = await turn(bench, mutual, { fresh: true, connections: HANDSHAKING });
  const finding = {
    settings: world.settings,
    raised: "SIGNET_TOKEN_RATE_* off",
    connections: CONNECTIONS,
    turns,
    oidc_provider: theirs,
    signet: ours,
    signet_mutual_tls: bound,
    signet_half_of_saturation: half,
    signet_new_connections: handshakes,
    times_oidc_provider: round(ours.perSecond / theirs.perSecond, 2),
    mutual_tls_share: round(bound.perSecond / ours.perSecond, 2),
    half_p99_ms: half.latencyMs.p99,
  };
  bench.findings["tokens"] = finding;
  bench.log(JSON.stringify({ ...finding, turns: undefined, settings: undefined }, undefined, 2));
  await world.stop();
}

export const tokens: Scenario = {
  name: "tokens",
  about:
    "tokens/s beside oidc-provider, 32 connections, plain HTTP and mutual TLS; half of saturation; handshakes",
  run: runScenario,
};
