/** Endpoints are registered: CPU of each verification, and its time beside other tenants' receivers that hang. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import {
  accessToken,
  provisionTenant,
  registerEndpoints,
  requestJson,
  untilActive,
} from "../environment/provision.ts";
import type { World } from "../environment/world.ts";
import { Meter, sum } from "../measure/meter.ts";
import { percentiles } from "../measure/statistics.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

const REGISTERED = 48;
const PER_SECOND = 4;
const HANGING_EACH = 50;
const TIMED = 20;
const TIMED_APART_MS = 500;
const POLL_MS = 10;
const SECOND_MS = 1_000;
const TYPES = ["bench.type_00"];

/** Opens a receiver that accepts connections and never answers. */
export async function openSilentReceiver(): Promise<Server> {
  const server = createServer((socket) => socket.on("error", () => undefined)).listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

/** Registers as many endpoints as a tenant may have, all at a receiver. */
export async function registerMany(world: World, name: string, receiver: Server): Promise<void> {
  const { port } = receiver.address() as AddressInfo;
  const tenant = await provisionTenant(world.signet, world.operatorToken, name);
  const endpoints = Array.from({ length: HANGING_EACH }, (_, number) => ({
    number,
    url: `http://127.0.0.1:${port}/${number}`,
  }));
  await registerEndpoints(world.signet, tenant, endpoints, TYPES);
}

/** Registers an endpoint. @returns milliseconds until it is `ACTIVE` */
async function timeOfOne(world: World, token: string, url: string): Promise<number> {
  const endpoints = `${world.signet.apiUrl}/v1/webhooks/endpoints`;
  const startedAt = performance.now();
  const { id } = await requestJson("POST", endpoints, token, { url, events: TYPES });
  while ((await requestJson("GET", `${endpoints}/${String(id)}`, token))["state"] !== "ACTIVE") {
    await delay(POLL_MS);
  }
  return performance.now() - startedAt;
}

/** Registers endpoints of a new tenant one after the other. @returns the times until each is `ACTIVE` */
async function timesOfTenant(bench: Bench, world: World, name: string): Promise<number[]> {
  const tenant = await provisionTenant(world.signet, world.operatorToken, name);
  const token = await accessToken(world.signet, tenant);
  const times: number[] = [];
  for (const { url } of await bench.load.openEndpoints(TIMED)) {
    times.push(await timeOfOne(world, token, url));
    await delay(TIMED_APART_MS);
  }
  return times;
}

/** @returns CPU of one verification with its registration, in milliseconds, without the idle system's */
async function cpuOfOne(bench: Bench, world: World): Promise<Record<string, number>> {
  const tenant = await provisionTenant(world.signet, world.operatorToken, "registering");
  const token = await accessToken(world.signet, tenant);
  const endpoints = await bench.load.openEndpoints(REGISTERED);
  const meter = new Meter(world);
  await meter.begin();
  const startedAt = performance.now();
  for (const [index, { url }] of endpoints.entries()) {
    await requestJson("POST", `${world.signet.apiUrl}/v1/webhooks/endpoints`, token, { url, events: TYPES });
    await delay(Math.max(0, startedAt + ((index + 1) * SECOND_MS) / PER_SECOND - performance.now()));
  }
  await untilActive(world.signet, tenant, REGISTERED);
  const seconds = (performance.now() - startedAt) / SECOND_MS;
  const { cpu, idle } = await meter.finish();
  const each = Object.entries(cpu).map(([name, used]): [string, number] => [
    name,
    round(((used - (idle[name] ?? 0) * seconds) * SECOND_MS) / REGISTERED, 1),
  ]);
  return { ...Object.fromEntries(each), total: round(sum(Object.fromEntries(each)), 1) };
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "verification");
  await timesOfTenant(bench, world, "warm-up");
  const cpuMs = await cpuOfOne(bench, world);
  const quiet = await timesOfTenant(bench, world, "quiet");

  const silent = await openSilentReceiver();
  const neighbours = ["first", "second"].map(async (name) => await registerMany(world, name, silent));
  const [beside] = await Promise.all([timesOfTenant(bench, world, "beside"), ...neighbours]);
  bench.findings["verification"] = {
    cpu_ms: cpuMs,
    quiet_p50_ms: round(percentiles(quiet).p50, 1),
    quiet_max_ms: round(percentiles(quiet).max, 1),
    beside_hanging_p50_ms: round(percentiles(beside).p50, 1),
    beside_hanging_max_ms: round(percentiles(beside).max, 1),
  };
  bench.log(`verification: ${JSON.stringify(bench.findings["verification"])}`);
  // Hanging receivers would be pinged for days.
  await world.stop();
  silent.close();
}

export const verification: Scenario = {
  name: "verification",
  about: "registrations at 4/s, then beside two tenants that register 50 receivers each that never answer",
  run: runScenario,
};
