/** Starts of an edge from two hubs and from the database, with few revocations and with a million. */
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setLeaseKeys } from "#database/repositories/tokens/lease-keys.ts";
import { fillRevocations } from "#test/support/many-revocations.ts";
import { withClient } from "../environment/postgres.ts";
import type { Settings } from "../environment/signet.ts";
import type { World } from "../environment/world.ts";
import { Served } from "../load/rpc.ts";
import { residentPeakMiB } from "../measure/process-tree.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

const REVOCATIONS = 1_000_000;
const STARTS = 5;
const HUBS = 2;
const HUB = new URL("../load/hub-process.ts", import.meta.url);

interface Start {
  readonly readyMs: number;
  readonly peakMiB: number;
}

async function startOnce(world: World, settings: Settings): Promise<Start> {
  const beganAt = performance.now();
  const { server } = await world.startEdge(settings);
  const readyMs = performance.now() - beganAt;
  const peakMiB = residentPeakMiB(server.pid);
  await server.stop();
  return { readyMs, peakMiB };
}

/** From the start of the process until its `/readyz` answers 200, which is asked for every 50 ms. */
async function startOften(world: World, settings: Settings) {
  const starts: Start[] = [];
  while (starts.length < STARTS) {
    starts.push(await startOnce(world, settings));
  }
  const ready = starts.map(({ readyMs }) => round(readyMs, 0)).toSorted((one, other) => one - other);
  return {
    ready_ms: { min: ready[0], median: ready[Math.floor(STARTS / 2)], max: ready.at(-1) },
    peak_mib: round(Math.max(...starts.map(({ peakMiB }) => peakMiB)), 0),
  };
}

async function startHubs(world: World, hubs: readonly Served[]): Promise<string[]> {
  return await Promise.all(
    hubs.map(async (hub, number) => {
      const plan = { url: world.serviceDatabaseUrl, region: `region-${number}`, port: 0 };
      return `ws://127.0.0.1:${await hub.call<number>("start", plan)}`;
    }),
  );
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "cold-edge");
  const hubs = Array.from({ length: HUBS }, () => new Served(HUB));
  const routes = join(bench.stack.directory, "cold-edge-routes.json");
  const key = randomBytes(32);
  try {
    const identityKey = randomBytes(32).toString("base64");
    await writeFile(
      routes,
      JSON.stringify({
        upstreams: { data: { url: "http://127.0.0.1:9", identity_key: identityKey } },
        routes: [{ method: "GET", path: "/v1/sample", scope: "webhooks:read", upstream: "data" }],
      }),
    );
    await withClient(world.adminDatabaseUrl, async (client) => await setLeaseKeys(client, [key]));
    const urls = await startHubs(world, hubs);
    const common = { SIGNET_EDGE_ROUTES: routes, SIGNET_MTLS_MODE: "off", SIGNET_ENV: "development" };
    const behind = (hubUrls: readonly string[]): Settings => ({
      ...common,
      SIGNET_DATABASE_URL: "",
      SIGNET_HUBS: hubUrls.join(","),
      SIGNET_LEASE_KEY: key.toString("base64"),
    });
    const few = { hubs: await startOften(world, behind(urls)), database: await startOften(world, common) };
    bench.log(`few revocations: ${JSON.stringify(few)}`);
    const revocations = bench.events(REVOCATIONS);
    await withClient(world.adminDatabaseUrl, async (client) => await fillRevocations(client, revocations));
    // The insertion announced nothing, so only new hubs know of it.
    for (const hub of hubs.splice(0)) {
      hub.stop();
    }
    hubs.push(...Array.from({ length: HUBS }, () => new Served(HUB)));
    const filled = behind(await startHubs(world, hubs));
    await startOnce(world, filled);
    const many = { hubs: await startOften(world, filled), database: await startOften(world, common) };
    bench.log(`${revocations} revocations: ${JSON.stringify(many)}`);
    const hubPeakMiB = round(Math.max(...hubs.map(({ pid }) => residentPeakMiB(pid))), 0);
    bench.findings["cold-edge"] = { revocations, few, many, hub_peak_mib: hubPeakMiB };
  } finally {
    hubs.forEach((hub) => hub.stop());
    await world.stop();
  }
}

export const coldEdge: Scenario = {
  name: "cold-edge",
  about:
    "starts of an edge until it is ready, from two hubs and from the database, with few revocations and with 1,000,000: milliseconds and memory",
  run: runScenario,
};
