/**
 * Revocations across borders: followers behind hubs that are 180 ms from the primary, without faults and with them. The
 * distance is a proxy that delays and loses (`test/support/distant-proxy.ts`), because not every kernel has netem.
 */
import { randomBytes } from "node:crypto";
import { availableParallelism } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { setLeaseKeys } from "#database/repositories/tokens/lease-keys.ts";
import { type DistantProxy, startDistantProxy } from "#test/support/distant-proxy.ts";
import { withClient } from "../environment/postgres.ts";
import { requestJson } from "../environment/provision.ts";
import type { World } from "../environment/world.ts";
import type { Samples, Watched } from "../load/hub-followers-process.ts";
import { Served } from "../load/rpc.ts";
import { cpuSeconds } from "../measure/process-tree.ts";
import { percentiles } from "../measure/statistics.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

const ROUND_TRIP_MS = 180;
const JITTER_MS = 5;
const LOSS = 0.01;
const FOLLOWER_PROCESSES = 4;
const BOUND_MS = 250;
const PAUSE_MS = 700;
const WATCHED_MS = 500;
const CORES = availableParallelism();
/** A follower and its share of hubs take up to a percent of a core. The rest is for the primary and the distance. */
const FOLLOWERS_PER_CORE = 32;
const FOLLOWERS_MAX = 1_000;
const HUBS = 10;
const REST_MS = 20_000;
const FAULT_MS = 1_500;
const SETTLE_MS = 3_000;

interface Size {
  readonly hubs: number;
  readonly followers: number;
  readonly hubsEach: number;
  readonly seconds: number;
}

interface Regions {
  readonly proxies: readonly DistantProxy[];
  readonly hubs: Served[];
  readonly ports: readonly number[];
  readonly followers: readonly Served[];
}

const HUB = new URL("../load/hub-process.ts", import.meta.url);
const FOLLOWERS = new URL("../load/hub-followers-process.ts", import.meta.url);

async function open(world: World, key: Buffer, size: Size): Promise<Regions> {
  const database = new URL(world.serviceDatabaseUrl);
  const distance = { roundTripMs: ROUND_TRIP_MS, jitterMs: JITTER_MS, loss: LOSS, random: Math.random };
  const proxies: DistantProxy[] = [];
  const hubs: Served[] = [];
  const ports: number[] = [];
  for (let number = 0; number < size.hubs; number += 1) {
    const proxy = await startDistantProxy(Number(database.port), distance);
    const hub = new Served(HUB);
    proxies.push(proxy);
    hubs.push(hub);
    ports.push(await startHub(hub, world, { proxy, number, port: 0 }));
  }
  const urls = ports.map((port) => `ws://127.0.0.1:${port}`);
  const followers = Array.from({ length: FOLLOWER_PROCESSES }, () => new Served(FOLLOWERS));
  const count = size.followers / FOLLOWER_PROCESSES;
  await Promise.all(
    followers.map(
      async (served) => await served.call("follow", { hubs: urls, hubsEach: size.hubsEach, count, key }),
    ),
  );
  return { proxies, hubs, ports, followers };
}

async function startHub(
  hub: Served,
  world: World,
  { proxy, number, port }: { readonly proxy: DistantProxy; readonly number: number; readonly port: number },
): Promise<number> {
  const url = new URL(world.serviceDatabaseUrl);
  url.hostname = "127.0.0.1";
  url.port = String(proxy.port);
  return await hub.call<number>("start", { url: url.href, region: `region-${number}`, port });
}

/**
 * One revocation: milliseconds from its entry to each follower's denial and last admission, and the latest admission
 * after the answer. An entry takes its time before it commits, so a slow commit counts as slow followers; the answer
 * follows the commit.
 */
async function revokeOnce(world: World, { followers }: Regions) {
  const target = randomBytes(16).toString("base64url");
  await Promise.all(followers.map(async (served) => await served.call("watch", target)));
  const url = `${world.signet.adminUrl}/revocations`;
  await requestJson("POST", url, world.operatorToken, { kind: "jti", target });
  const answeredAt = Date.now();
  await delay(WATCHED_MS);
  const watched = await Promise.all(followers.map(async (served) => await served.call<Watched>("watched")));
  const at = await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ at_ms: number }>(
      "SELECT (extract(epoch FROM at) * 1000)::float8 AS at_ms FROM revocations WHERE target = $1",
      [target],
    );
    return rows[0]?.at_ms ?? 0;
  });
  const since = (values: readonly number[]): number[] =>
    values.filter((value) => value > at).map((value) => value - at);
  const lastAdmitted = watched.flatMap((each) => each.lastAdmitted);
  return {
    denied: since(watched.flatMap(({ firstDenied }) => firstDenied)),
    admitted: since(lastAdmitted),
    admittedAfterAnswer: lastAdmitted.map((value) => value - answeredAt),
    commitMs: answeredAt - at,
  };
}

/** Cuts a hub off, freezes it, or kills it and starts it again, in turns. */
async function causeFault(turn: number, world: World, regions: Regions): Promise<void> {
  const number = turn % regions.hubs.length;
  const hub = regions.hubs[number] as Served;
  const proxy = regions.proxies[number] as DistantProxy;
  switch (turn % 3) {
    case 0:
      proxy.cutOff();
      await delay(FAULT_MS);
      proxy.join();
      break;
    case 1:
      process.kill(hub.pid, "SIGSTOP");
      await delay(FAULT_MS);
      process.kill(hub.pid, "SIGCONT");
      break;
    default: {
      process.kill(hub.pid, "SIGKILL");
      await delay(FAULT_MS);
      const next = new Served(HUB);
      regions.hubs[number] = next;
      await startHub(next, world, { proxy, number, port: regions.ports[number] ?? 0 });
    }
  }
}

async function causeFaults(world: World, regions: Regions, over: AbortSignal): Promise<void> {
  for (let turn = 0; !over.aborted; turn += 1) {
    await causeFault(turn, world, regions);
    await delay(FAULT_MS);
  }
}

function totals(samples: readonly Samples[]): Record<string, number> {
  const sum = (of: (each: Samples) => number): number =>
    samples.reduce((before, each) => before + of(each), 0);
  return {
    samples: sum(({ taken }) => taken),
    stale_share: round(sum(({ staleMs }) => staleMs) / sum(({ sampledMs }) => sampledMs), 5),
    would_reject: sum(({ rejecting }) => rejecting),
    longest_stale_ms: round(Math.max(...samples.map(({ longestStaleMs }) => longestStaleMs)), 1),
    longest_pause_ms: round(Math.max(...samples.map(({ longestPauseMs }) => longestPauseMs)), 1),
  };
}

/** CPU seconds of these processes since they started. */
function cpu(of: readonly Served[]): number {
  const pids = Object.fromEntries(of.map(({ pid }) => [pid, pid]));
  return Object.values(cpuSeconds(pids)).reduce((sum, each) => sum + each, 0);
}

interface Asked {
  readonly count: number;
  readonly roundTripMs: number;
}

async function asked({
  hubs,
}: Regions): Promise<{ readonly statements: number; readonly roundTripMs: number }> {
  const all = await Promise.all(hubs.map(async (hub) => await hub.call<Asked>("asked")));
  return {
    statements: all.reduce((sum, { count }) => sum + count, 0),
    roundTripMs: Math.max(...all.map(({ roundTripMs }) => roundTripMs)),
  };
}

/** What following costs, without revocations and without the samples of this bench. */
async function measureCost(regions: Regions, { hubs, followers }: Size) {
  await Promise.all(regions.followers.map(async (served) => await served.call("rest")));
  await asked(regions);
  const before = { hubs: cpu(regions.hubs), followers: cpu(regions.followers) };
  const beganAt = performance.now();
  await delay(REST_MS);
  const seconds = (performance.now() - beganAt) / 1_000;
  const { statements, roundTripMs } = await asked(regions);
  return {
    seconds: round(seconds, 1),
    statements_per_second: round(statements / seconds, 1),
    round_trip_ms: round(roundTripMs, 1),
    cpu_per_follower_percent: round(
      (100 * (cpu(regions.followers) - before.followers)) / seconds / followers,
      3,
    ),
    cpu_per_hub_percent: round((100 * (cpu(regions.hubs) - before.hubs)) / seconds / hubs, 2),
  };
}

async function phase(world: World, regions: Regions, { size, faults }: { size: Size; faults: boolean }) {
  const denied: number[] = [];
  const admitted: number[] = [];
  const admittedAfterAnswer: number[] = [];
  const commits: number[] = [];
  await Promise.all(regions.followers.map(async (served) => await served.call("samples")));
  await asked(regions);
  const beganAt = performance.now();
  const over = new AbortController();
  const faulting = faults ? causeFaults(world, regions, over.signal) : Promise.resolve();
  let revocations = 0;
  while (performance.now() - beganAt < size.seconds * 1_000) {
    const one = await revokeOnce(world, regions);
    denied.push(...one.denied);
    admitted.push(...one.admitted);
    admittedAfterAnswer.push(...one.admittedAfterAnswer);
    commits.push(one.commitMs);
    revocations += 1;
    await delay(PAUSE_MS * Math.random());
  }
  over.abort();
  await faulting;
  const seconds = (performance.now() - beganAt) / 1_000;
  const { statements } = await asked(regions);
  const samples = await Promise.all(
    regions.followers.map(async (served) => await served.call<Samples>("samples")),
  );
  const { p50, p99, max } = percentiles(denied);
  return {
    seconds: round(seconds, 1),
    revocations,
    denied: denied.length,
    not_denied_within_500_ms: revocations * size.followers - denied.length,
    denied_ms: { p50: round(p50, 1), p99: round(p99, 1), max: round(max, 1) },
    last_admission_ms: round(Math.max(0, ...admitted), 1),
    admitted_after_250_ms: admitted.filter((ms) => ms > BOUND_MS).length,
    last_admission_after_answer_ms: round(Math.max(0, ...admittedAfterAnswer), 1),
    admitted_250_ms_after_answer: admittedAfterAnswer.filter((ms) => ms > BOUND_MS).length,
    entry_to_answer_max_ms: round(Math.max(0, ...commits), 1),
    ...totals(samples),
    // A hub that was killed does not say how much it asked.
    ...(faults ? {} : { statements_per_second: round(statements / seconds, 1) }),
  };
}

function sizeOf({ quick, borders: { followers, seconds } }: Bench): Size {
  const most = Math.min(FOLLOWERS_MAX, FOLLOWERS_PER_CORE * CORES);
  const wanted = followers ?? (quick ? 40 : most);
  return {
    hubs: quick ? 2 : HUBS,
    followers: FOLLOWER_PROCESSES * Math.ceil(wanted / FOLLOWER_PROCESSES),
    hubsEach: quick ? 1 : 2,
    seconds: seconds ?? (quick ? 20 : 600),
  };
}

async function runScenario(bench: Bench): Promise<void> {
  const size = sizeOf(bench);
  const world = await bench.world({}, "borders");
  const key = randomBytes(32);
  await withClient(world.adminDatabaseUrl, async (client) => await setLeaseKeys(client, [key]));
  const regions = await open(world, key, size);
  try {
    await delay(SETTLE_MS);
    const cost = await measureCost(regions, size);
    bench.log(`cost: ${JSON.stringify(cost)}`);
    const quiet = await phase(world, regions, { size, faults: false });
    bench.log(`without faults: ${JSON.stringify(quiet)}`);
    const faulty = await phase(world, regions, { size, faults: true });
    bench.log(`with faults: ${JSON.stringify(faulty)}`);
    const lost = regions.proxies.reduce((sum, proxy) => sum + proxy.lost, 0);
    bench.findings["borders"] = { size, lost_packets: lost, cost, quiet, faulty };
  } finally {
    for (const served of [...regions.followers, ...regions.hubs]) {
      served.stop();
    }
    await Promise.all(regions.proxies.map(async (proxy) => await proxy.close()));
    await world.stop();
  }
}

export const borders: Scenario = {
  name: "borders",
  about:
    "followers behind 10 hubs, up to 1,000 by the number of cores, at a round trip of 180 ms with 1 % loss: time to denial, leases, statements, CPU; then with hubs cut off, frozen and killed",
  timeoutMs: 45 * 60_000,
  run: runScenario,
};
