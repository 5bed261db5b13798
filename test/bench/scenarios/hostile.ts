/** One address without a credential requests the documents and refusals that cost an api most. */
import { fork } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { accessToken } from "../environment/provision.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

const CONNECTIONS = 200;
const PIPELINED = 256;
const SECONDS = 30;
const PUBLISH_EVERY_MS = 20;
const HEALTH_EVERY_MS = 100;
const ATTACKER = fileURLToPath(new URL("../load/hostile-process.mjs", import.meta.url));
const DEAREST = [
  "/docs/scalar.js",
  "/openapi.json",
  "/errors/not-found",
  "/docs",
  "/.well-known/jwks.json",
  "/.well-known/oauth-authorization-server",
  "/readyz",
  "/portal",
  "/v1/webhooks/dlq?limit=100",
  "/nowhere",
] as const;

function rssMiB(pid: number): number {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kib) / 1_024;
}

async function timed(call: () => Promise<Response>): Promise<number> {
  const began = performance.now();
  const answer = await call();
  await answer.arrayBuffer();
  if (!answer.ok) {
    throw new Error(`${answer.url} answered ${answer.status}`);
  }
  return performance.now() - began;
}

/** Calls at a fixed rate, independent of the responses. Returns the milliseconds of each call. */
async function paced(seconds: number, everyMs: number, call: () => Promise<Response>): Promise<number[]> {
  const times: Promise<number>[] = [];
  const end = performance.now() + seconds * 1_000;
  while (performance.now() < end) {
    times.push(timed(call));
    await delay(everyMs);
  }
  return (await Promise.all(times)).toSorted((left, right) => left - right);
}

const p99 = (times: readonly number[]): number => times[Math.floor(times.length * 0.99)] ?? Number.NaN;

async function runScenario(bench: Bench): Promise<void> {
  // Keep the default rate per address, which is part of the measurement.
  const world = await bench.world({ SIGNET_PUBLIC_RATE_PER_ADDRESS: "50" }, "hostile");
  const { tenants, types } = await world.group({
    name: "victim",
    tenants: 1,
    endpointsPerTenant: 1,
    fanOut: "one",
  });
  const { signet } = world;
  const token = await accessToken(signet, tenants[0] as (typeof tenants)[number]);
  const url = new URL(signet.apiUrl);
  const publish = async (): Promise<Response> =>
    await fetch(`${signet.apiUrl}/v1/events`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ type: types[0], data: { n: 1 } }),
    });
  const health = async (): Promise<Response> => await fetch(`${signet.apiUrl}/healthz`);
  const seconds = bench.seconds(SECONDS);
  await paced(seconds / 3, PUBLISH_EVERY_MS, publish);
  const quiet = await paced(seconds, PUBLISH_EVERY_MS, publish);

  const before = rssMiB(signet.pids.signet_api);
  let peak = before;
  const sampler = setInterval(() => (peak = Math.max(peak, rssMiB(signet.pids.signet_api))), 50);
  // A separate process, so that the attacker's work is not counted as waiting.
  const attacker = fork(ATTACKER, [url.port, String(CONNECTIONS), String(PIPELINED), ...DEAREST], {
    execArgv: [],
  });
  const [published, healthz] = await Promise.all([
    paced(seconds, PUBLISH_EVERY_MS, publish),
    paced(seconds, HEALTH_EVERY_MS, health),
  ]).finally(() => {
    clearInterval(sampler);
    attacker.kill();
  });
  bench.findings["hostile"] = {
    connections: CONNECTIONS,
    rss_before_mib: round(before, 1),
    rss_growth_mib: round(peak - before, 1),
    healthz_p99_ms: round(p99(healthz), 1),
    healthz_max_ms: round(healthz.at(-1) ?? Number.NaN, 1),
    publish_quiet_p99_ms: round(p99(quiet), 1),
    publish_p99_ms: round(p99(published), 1),
    publish_p99_ratio: round(p99(published) / p99(quiet), 2),
  };
  bench.log(`hostile: ${JSON.stringify(bench.findings["hostile"])}`);
}

export const hostile: Scenario = {
  name: "hostile",
  about:
    "one address, 200 connections of pipelined requests without a credential; another tenant publishes 50/s",
  run: runScenario,
};
