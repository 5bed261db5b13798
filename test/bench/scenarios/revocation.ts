/** Revocations with a hundred followers: how soon they apply one, and when disconnected ones stop admitting. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { startTcpProxy } from "#test/support/tcp-proxy.ts";
import { withClient } from "../environment/postgres.ts";
import { requestJson } from "../environment/provision.ts";
import type { World } from "../environment/world.ts";
import type { Applied } from "../load/followers-process.ts";
import { monotonicMs } from "../load/monotonic.ts";
import { Served } from "../load/rpc.ts";
import { percentiles } from "../measure/statistics.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

const PROCESSES = 4;
const FOLLOWERS_EACH = 25;
const REVOCATIONS = 1_000;
const FREEZES = 20;
/** Emergencies come one at a time. Without a pause, the load generator's own queue would be measured. */
const PAUSE_MS = 25;
const SETTLE_MS = 500;
const FROZEN_MS = 700;

interface Receipt {
  readonly sequence: number;
  readonly edges: { readonly live: number; readonly acked: number; readonly max_ms: number };
}

function figures(values: readonly number[]): Readonly<Record<string, number>> {
  const { p50, p95, p99, max } = percentiles(values);
  return { p50: round(p50, 2), p95: round(p95, 2), p99: round(p99, 2), max: round(max, 2) };
}

async function untilCurrent(processes: readonly Served[]): Promise<void> {
  for (;;) {
    const counts = await Promise.all(processes.map(async (served) => await served.call<number>("current")));
    if (counts.every((count) => count === FOLLOWERS_EACH)) {
      return;
    }
    await delay(SETTLE_MS / 10);
  }
}

async function revoke(world: World): Promise<Receipt> {
  const target = randomBytes(16).toString("base64url");
  const url = `${world.signet.adminUrl}/revocations`;
  return (await requestJson("POST", url, world.operatorToken, { kind: "jti", target })) as unknown as Receipt;
}

/** Measures the time of each revocation to every follower and to the slowest, and collects its receipt. */
async function measureSpread(world: World, processes: readonly Served[], revocations: number) {
  await Promise.all(processes.map(async (served) => await served.call("applied")));
  const receipts: Receipt[] = [];
  for (let count = 0; count < revocations; count += 1) {
    receipts.push(await revoke(world));
    await delay(PAUSE_MS);
  }
  await delay(SETTLE_MS);
  const noted = await Promise.all(processes.map(async (served) => await served.call<Applied[]>("applied")));
  const published = await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ seq: string; at_ms: number }>(
      "SELECT seq, (extract(epoch FROM at) * 1000)::float8 AS at_ms FROM revocations",
    );
    return new Map(rows.map(({ seq, at_ms: atMs }) => [Number(seq), atMs]));
  });
  const delays = noted.flat().map(([sequence, atMs]) => atMs - (published.get(sequence) ?? Number.NaN));
  return {
    revocations,
    followers: PROCESSES * FOLLOWERS_EACH,
    applied: delays.length,
    ms_to_each: figures(delays),
    receipt_max_ms: figures(receipts.map(({ edges }) => edges.max_ms)),
    receipts_complete: receipts.filter(({ edges }) => edges.acked === edges.live).length,
    live: receipts.at(-1)?.edges.live,
  };
}

/** Measures how long followers still admitted after their connection froze. */
async function measureFreezes(world: World, serviceUrl: string, freezes: number) {
  const target = new URL(serviceUrl);
  const proxy = await startTcpProxy(Number(target.port));
  target.hostname = "127.0.0.1";
  target.port = String(proxy.port);
  const served = new Served(new URL("../load/followers-process.ts", import.meta.url));
  const last: number[] = [];
  try {
    await served.call("follow", { url: target.href, count: FOLLOWERS_EACH });
    for (let count = 0; count < freezes; count += 1) {
      await untilCurrent([served]);
      await served.call("watch");
      await delay(Math.random() * SETTLE_MS);
      proxy.freeze();
      const frozenAt = monotonicMs();
      await revoke(world);
      await delay(FROZEN_MS);
      last.push(...(await served.call<number[]>("watched")).map((at) => at - frozenAt));
      proxy.thaw();
    }
  } finally {
    served.stop();
    await proxy.close();
  }
  return {
    freezes,
    followers: FOLLOWERS_EACH,
    last_admission_ms: figures(last),
    later_than_250_ms: last.filter((ms) => ms > 250).length,
  };
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "revocation");
  const url = world.serviceDatabaseUrl;
  const processes = Array.from(
    { length: PROCESSES },
    () => new Served(new URL("../load/followers-process.ts", import.meta.url)),
  );
  try {
    await Promise.all(
      processes.map(async (served) => await served.call("follow", { url, count: FOLLOWERS_EACH })),
    );
    await untilCurrent(processes);
    const spread = await measureSpread(world, processes, bench.events(REVOCATIONS));
    processes.forEach((served) => served.stop());
    const frozen = await measureFreezes(world, url, bench.quick ? FREEZES / 4 : FREEZES);
    bench.findings["revocation"] = { settings: world.settings, spread, frozen };
    bench.log(JSON.stringify({ spread, frozen }, undefined, 2));
  } finally {
    processes.forEach((served) => served.stop());
    await world.stop();
  }
}

export const revocation: Scenario = {
  name: "revocation",
  about:
    "1,000 revocations with 100 followers: time from entry to denial, receipts; last admission on a frozen connection",
  run: runScenario,
};
