/** The axes beside deliveries: credentials, revocations, edges, and the number of processes. */
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { readRevocationSnapshot } from "#database/repositories/tokens/followed-revocations.ts";
import { setLeaseKeys } from "#database/repositories/tokens/lease-keys.ts";
import { readRevokedPlaces } from "#database/repositories/tokens/status-lists.ts";
import { fillCredentials } from "#test/support/many-rows.ts";
import { fillRevocations } from "#test/support/many-revocations.ts";
import { withClient } from "#test/bench/environment/postgres.ts";
import { requestJson } from "#test/bench/environment/provision.ts";
import type { World } from "#test/bench/environment/world.ts";
import { Served } from "#test/bench/load/rpc.ts";
import { sum } from "#test/bench/measure/meter.ts";
import { cpuSeconds, residentPeakMiB } from "#test/bench/measure/process-tree.ts";
import type { Bench } from "../bench.ts";
import { turn } from "../http-turns.ts";
import { saturationOf, singles } from "../saturation.ts";
import { signetSubject } from "../tokens.ts";
import type { Costs } from "./promises.ts";
import { startApi, timeOf } from "./queue-axes.ts";

const CONNECTIONS = 64;
const REST_S = 20;
const HUB = new URL("../../load/hub-process.ts", import.meta.url);
const FOLLOWERS = new URL("../../load/hub-followers-process.ts", import.meta.url);

export async function credentials(bench: Bench, size: number, before: number): Promise<Costs<"credentials">> {
  const world = await bench.world({}, "growth-credentials");
  const { tenants } = await bench.tenTenants(world);
  const [tenant] = tenants;
  if (tenant === undefined) {
    throw new Error("the group has no tenants");
  }
  await withClient(world.adminDatabaseUrl, async (client) => {
    await fillCredentials(client, tenant.id, size - before);
    await client.query("VACUUM (ANALYZE) credentials, secret_versions");
  });
  const { cpuPerThousand } = await turn(bench, signetSubject(world, tenant));
  return { cpu_s_per_1000: cpuPerThousand };
}

/** Starts an edge once; returns its time until it is ready, and its memory. */
async function startEdge(bench: Bench, world: World): Promise<{ readonly ms: number; readonly mib: number }> {
  const routes = join(bench.stack.directory, "growth-routes.json");
  const upstream = { url: "http://127.0.0.1:9", identity_key: randomBytes(32).toString("base64") };
  const route = { method: "GET", path: "/v1/sample", scope: "webhooks:read", upstream: "data" };
  await writeFile(routes, JSON.stringify({ upstreams: { data: upstream }, routes: [route] }));
  const begun = performance.now();
  const { server } = await world.startEdge({
    SIGNET_EDGE_ROUTES: routes,
    SIGNET_MTLS_MODE: "off",
    SIGNET_ENV: "development",
  });
  const started = { ms: performance.now() - begun, mib: residentPeakMiB(server.pid) };
  await server.stop();
  return started;
}

export async function revocations(bench: Bench, size: number, before: number): Promise<Costs<"revocations">> {
  const world = await bench.world({}, "growth-revocations");
  const times = await withClient(world.adminDatabaseUrl, async (client) => {
    await setLeaseKeys(client, [randomBytes(32)]);
    await fillRevocations(client, size - before);
    await client.query("VACUUM (ANALYZE) revocations");
    return {
      snapshot_ms: await timeOf(
        async () => await readRevocationSnapshot(client, async (answer) => await answer),
      ),
      status_list_ms: await timeOf(async () => await readRevokedPlaces(client, 1)),
    };
  });
  const api_start_ms = await startApi(world);
  const url = `${world.signet.adminUrl}/revocations`;
  const publish_ms = await timeOf(async () => {
    const target = randomBytes(16).toString("base64url");
    await requestJson("POST", url, world.operatorToken, { kind: "jti", target });
  });
  const { ms: edge_start_ms, mib: edge_mib } = await startEdge(bench, world);
  return { ...times, publish_ms, api_start_ms, edge_start_ms, edge_mib };
}

export async function edges(bench: Bench, size: number): Promise<Costs<"edges">> {
  const world = await bench.world({}, "growth-edges");
  const key = randomBytes(32);
  await withClient(world.adminDatabaseUrl, async (client) => await setLeaseKeys(client, [key]));
  const [hub, followers] = [new Served(HUB), new Served(FOLLOWERS)];
  try {
    const plan = { url: world.serviceDatabaseUrl, region: "near", port: 0 };
    const hubs = [`ws://127.0.0.1:${await hub.call<number>("start", plan)}`];
    await followers.call("follow", { hubs, hubsEach: 1, count: size, key });
    await followers.call("rest");
    await hub.call("asked");
    const used = (): number => sum(cpuSeconds({ hub: hub.pid }));
    const before = used();
    const seconds = bench.seconds(REST_S);
    await delay(seconds * 1_000);
    const { count } = await hub.call<{ readonly count: number }>("asked");
    return { hub_cpu_percent: (100 * (used() - before)) / seconds, hub_questions_per_s: count / seconds };
  } finally {
    followers.stop();
    hub.stop();
  }
}

export async function workers(bench: Bench, size: number): Promise<Costs<"workers">> {
  const world = await bench.world({}, `growth-workers-${size}`, { apis: size, workers: size });
  const group = await bench.tenTenants(world);
  const { events, warmUp } = saturationOf(bench);
  const { cpu_s_per_1000: cpu } = await bench.measure(world, {
    name: `growth-workers-${size}`,
    warmUp,
    flow: { group, events, pace: singles(CONNECTIONS) },
  });
  const used = (): number => sum(cpuSeconds(world.roots.system));
  const before = used();
  const seconds = bench.seconds(REST_S);
  await delay(seconds * 1_000);
  return {
    idle_cpu_percent: (100 * (used() - before)) / seconds,
    cpu_s_per_1000: cpu["total"] ?? Number.NaN,
  };
}
