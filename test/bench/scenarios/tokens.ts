/** Tokens per second compared to oidc-provider, over plain HTTP and mutual TLS, in one run. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { randomBytes } from "node:crypto";
import type { ServerProcess } from "#processes/embedded/server-process.ts";
import { type DevelopmentCa, openDevelopmentCa } from "#http/mutual-tls/dev-ca.ts";
import { freePort } from "#test/support/free-port.ts";
import type { Tenant } from "../environment/provision.ts";
import type { World } from "../environment/world.ts";
import type { HttpLoadPlan } from "../load/http-load.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { CONNECTIONS, median, startYardstick, type Subject, type Turn, turn, TURNS } from "./http-turns.ts";

const HANDSHAKING = 8;
const OIDC_PROVIDER = fileURLToPath(new URL("../load/oidc-provider-process.mjs", import.meta.url));

function form(clientId: string, clientSecret: string): Pick<HttpLoadPlan, "headers" | "body"> {
  const basic = Buffer.from(`${clientId}:${clientSecret}`).toString("base64");
  return {
    headers: [`Authorization: Basic ${basic}`, "Content-Type: application/x-www-form-urlencoded"],
    body: "grant_type=client_credentials&scope=webhooks%3Aread",
  };
}

async function startOidcProvider(bench: Bench): Promise<{ server: ServerProcess; subject: Subject }> {
  const port = await freePort();
  const [clientId, clientSecret] = ["bench", randomBytes(32).toString("hex")];
  const server = await startYardstick(bench, "oidc-provider", [
    OIDC_PROVIDER,
    String(port),
    clientId,
    clientSecret,
  ]);
  const plan = {
    host: "127.0.0.1",
    port,
    method: "POST" as const,
    path: "/token",
    ...form(clientId, clientSecret),
  };
  return { server, subject: { plan, roots: { oidc_provider: server.pid } } };
}

/** Tokens for a tenant's client. */
export function signetSubject(world: World, tenant: Tenant, tls?: HttpLoadPlan["tls"]): Subject {
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
    throw new Error("the tenant was not created");
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
  const [theirs, ours, bound] = [median(turns.oidc), median(turns.plain), median(turns.mutual)];
  const halves: Turn[] = [];
  const oidcHalves: Turn[] = [];
  for (let number = 0; number < TURNS; number += 1) {
    oidcHalves.push(await turn(bench, oidc.subject, { perSecond: Math.floor(theirs.perSecond / 2) }));
    halves.push(await turn(bench, plain, { perSecond: Math.floor(ours.perSecond / 2) }));
  }
  await oidc.server.stop([["SIGTERM", 5_000]]);
  const byP99 = ({ latencyMs }: Turn): number => latencyMs.p99;
  const [half, theirHalf] = [median(halves, byP99), median(oidcHalves, byP99)];
  const handshakes = await turn(bench, mutual, { fresh: true, connections: HANDSHAKING });
  const finding = {
    settings: world.settings,
    raised: "SIGNET_TOKEN_RATE_* off",
    connections: CONNECTIONS,
    turns: { ...turns, halves, oidcHalves },
    oidc_provider: theirs,
    signet: ours,
    signet_mutual_tls: bound,
    signet_half_of_saturation: half,
    oidc_provider_half_of_saturation: theirHalf,
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
