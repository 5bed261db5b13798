/** One receiver answers 500 until every delivery is a dead letter, then all are replayed. A healthy one runs beside it. */
import { setTimeout as delay } from "node:timers/promises";
import { withClient } from "../environment/postgres.ts";
import type { TenantGroup, World } from "../environment/world.ts";
import { monotonicMs } from "../load/monotonic.ts";
import { round } from "../report/measurement.ts";
import { type Bench, describeLoad, type Scenario } from "./bench.ts";
import { replayAll } from "./replay.ts";
import { type PublishedFlow, Run } from "./run.ts";

const EVENTS = 10_000;
const PER_SECOND = 250;
const HEALTHY_PER_SECOND = 50;
const QUIET_SECONDS = 15;
/** 72 hours shortened to three minutes. The first twelve of the 17 attempts fall due within 6 s. */
const RETRY_WINDOW_MS = 180_000;
const DEAD_LETTER_MS = 3_600_000;
const ATTEMPTS = 17;
const DEAD_TIMEOUT_MS = 600_000;
const POLL_MS = 1_000;

const HEALTHY = { name: "healthy", tenants: 1, endpointsPerTenant: 1, fanOut: "one" } as const;
const FAILING = { name: "failing", tenants: 1, endpointsPerTenant: 1, fanOut: "one" } as const;

async function countStates(world: World, tenantId: string): Promise<Readonly<Record<string, number>>> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ state: string; n: number }>(
      "SELECT state, count(*)::int AS n FROM deliveries WHERE tenant_id = $1 GROUP BY 1",
      [tenantId],
    );
    return Object.fromEntries(rows.map(({ state, n }) => [state, n]));
  });
}

/** Waits until every accepted delivery is a dead letter. Returns the seconds it took. */
async function untilDead(world: World, group: TenantGroup, accepted: number): Promise<number> {
  const began = monotonicMs();
  const tenantId = group.tenants[0]?.id ?? "";
  for (;;) {
    const states = await countStates(world, tenantId);
    const seconds = (monotonicMs() - began) / 1_000;
    if ((states["DEAD_LETTERED"] ?? 0) >= accepted) {
      return seconds;
    }
    if (seconds * 1_000 > DEAD_TIMEOUT_MS) {
      throw new Error(`not all deliveries became dead letters: ${JSON.stringify(states)}`);
    }
    await delay(POLL_MS);
  }
}

interface Phase {
  readonly failing: PublishedFlow;
  readonly healthy: PublishedFlow;
  readonly deadSeconds: number;
}

/** Publishes to both until the failing receiver's deliveries are dead letters. */
async function failAndDie(bench: Bench, world: World, run: Run, events: number): Promise<Phase> {
  const healthyGroup = await world.group(HEALTHY);
  const failingGroup = await world.group(FAILING);
  const ingestSeconds = events / PER_SECOND;
  const healthySeconds = Math.ceil(ingestSeconds + windowMs(bench) / 1_000);
  const healthy = run.publish({
    group: healthyGroup,
    events: healthySeconds * HEALTHY_PER_SECOND,
    pace: { kind: "open", perSecond: HEALTHY_PER_SECOND },
  });
  const failing = await run.publish({
    group: failingGroup,
    events,
    pace: { kind: "open", perSecond: PER_SECOND },
  });
  const deadSeconds = await untilDead(world, failingGroup, failing.accepted);
  return { failing, healthy: await healthy, deadSeconds: ingestSeconds + deadSeconds };
}

function windowMs(bench: Bench): number {
  return bench.quick ? RETRY_WINDOW_MS / 6 : RETRY_WINDOW_MS;
}

async function measureQuiet(bench: Bench, world: World): Promise<number> {
  const group = await world.group(HEALTHY);
  const events = HEALTHY_PER_SECOND * bench.seconds(QUIET_SECONDS);
  const quiet = await bench.measure(world, {
    name: "failing-receiver-quiet",
    warmUp: 200,
    flow: { group, events, pace: { kind: "open", perSecond: HEALTHY_PER_SECOND } },
  });
  return quiet.latency_ms.p95;
}

/** Returns the lowest and highest number of attempts of the failing deliveries. */
async function attemptsOf(bench: Bench, { from, published }: PublishedFlow): Promise<[number, number]> {
  const { attempts } = await bench.load.report();
  const own = attempts.slice(from, from + published.status.length);
  return [
    own.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    own.reduce((a, b) => Math.max(a, b), 0),
  ];
}

async function runScenario(bench: Bench): Promise<void> {
  const settings = {
    SIGNET_RETRY_WINDOW_MS: String(windowMs(bench)),
    SIGNET_DEAD_LETTER_MS: String(DEAD_LETTER_MS),
  };
  const world = await bench.world(settings, "failing");
  const failingGroup = await world.group(FAILING);
  const quietP95 = await measureQuiet(bench, world);
  const events = bench.events(EVENTS);
  await bench.load.behave(failingGroup.endpoints, { kind: "fail", attempts: Number.MAX_SAFE_INTEGER });
  const healthyMost = Math.ceil(events / PER_SECOND + windowMs(bench) / 1_000) * HEALTHY_PER_SECOND;
  const run = await Run.begin(world, bench.load, { events: events + healthyMost });
  const { failing, healthy, deadSeconds } = await failAndDie(bench, world, run, events);
  const [fewest, most] = await attemptsOf(bench, failing);
  const usage = await run.usage();
  const healthyStatistics = await run.statistics(healthy);
  const failingStatistics = await run.statistics(failing);
  await bench.load.behave(failingGroup.endpoints, { kind: "ok" });
  const replayBegan = monotonicMs();
  const replayedBy = await replayAll(world, failingGroup);
  await run.delivered(failing.accepted + healthy.accepted);
  const { firstOk } = await bench.load.report();
  const replayedAt = firstOk.slice(failing.from, failing.from + events).filter((at) => at >= replayBegan);
  const replaySeconds = (replayedAt.reduce((a, b) => Math.max(a, b), replayBegan) - replayBegan) / 1_000;
  const replayed = await run.statistics(failing);
  const healthyLatency = healthyStatistics.latencyMs;
  bench.record({
    name: "failing-receiver",
    settings: world.settings,
    load: describeLoad({ group: failingGroup, events, pace: { kind: "open", perSecond: PER_SECOND } }),
    statistics: { ...failingStatistics, lost: replayed.lost, duplicated: replayed.duplicated },
    usage,
    notes: {
      attempts_each: { fewest, most, wanted: ATTEMPTS },
      all_dead_after_s: round(deadSeconds, 1),
      attempts_per_s: round(failingStatistics.attempts / deadSeconds, 0),
      cpu_s_per_1000_attempts: round(
        (Object.values(usage.cpu).reduce((a, b) => a + b, 0) /
          (failingStatistics.attempts + healthyStatistics.attempts)) *
          1_000,
        3,
      ),
      replayed_by: replayedBy,
      replay_s: round(replaySeconds, 1),
      replayed_per_s: round(replayedAt.length / replaySeconds, 0),
      healthy_quiet_p95_ms: quietP95,
      healthy_p50_ms: round(healthyLatency.p50, 1),
      healthy_p95_ms: round(healthyLatency.p95, 1),
      healthy_p95_ratio: round(healthyLatency.p95 / quietP95, 2),
      healthy_lost: healthyStatistics.lost,
      healthy_duplicated: healthyStatistics.duplicated,
    },
  });
}

export const failingReceiver: Scenario = {
  name: "failing-receiver",
  about:
    "10,000 events at 250/s to a receiver that answers 500, 17 attempts each in 3 minutes, replayed; 50/s to a healthy one",
  run: runScenario,
};
