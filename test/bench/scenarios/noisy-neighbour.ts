/** Deliveries of one tenant, while another tenant's receivers hang or fail, or while it registers, replays or publishes. */
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import { withClient } from "../environment/postgres.ts";
import type { TenantGroup, World } from "../environment/world.ts";
import { round } from "../report/measurement.ts";
import { type Bench, describeLoad, type Scenario } from "./bench.ts";
import { replayAll } from "./replay.ts";
import { Run } from "./run.ts";
import { singles } from "./saturation.ts";
import { openSilentReceiver, registerMany } from "./verification.ts";

const HUNG_EVENTS = 2_000;
/** Longer than the sender's timeout of 10 s. */
const HANG_MS = 10_500;
const FAILING_PER_SECOND = 250;
const REPLAYED = 10_000;
const BATCHED_EVENTS = 40_000;
const BATCH = 1_000;
const PER_SECOND = 50;
const QUIET_SECONDS = 20;
const NOISY_SECONDS = 40;

interface Disturbance {
  /** Number of events that it publishes in the run. */
  readonly events: number;
  /** Begins with the victim's events. @returns how many of its own events arrive */
  begin(run: Run): Promise<number>;
  end?(): void;
}

interface Neighbour {
  readonly name: string;
  prepare(bench: Bench, world: World): Promise<Disturbance>;
}

async function noisyGroup(world: World, endpoints: number): Promise<TenantGroup> {
  return await world.group({ name: "noisy", tenants: 1, endpointsPerTenant: endpoints, fanOut: "one" });
}

const hanging: Neighbour = {
  name: "hanging",
  prepare: async (bench, world) => {
    const group = await noisyGroup(world, 50);
    await bench.load.behave(group.endpoints, { kind: "delay", ms: HANG_MS });
    const events = bench.events(HUNG_EVENTS);
    return {
      events,
      begin: async (run) => {
        await run.publish({ group, events, pace: singles(16) });
        return 0;
      },
    };
  },
};

const failing: Neighbour = {
  name: "failing",
  prepare: async (bench, world) => {
    const group = await noisyGroup(world, 1);
    await bench.load.behave(group.endpoints, { kind: "fail", attempts: Number.MAX_SAFE_INTEGER });
    const events = FAILING_PER_SECOND * bench.seconds(NOISY_SECONDS);
    return {
      events,
      begin: async (run) => {
        await run.publish({ group, events, pace: { kind: "open", perSecond: FAILING_PER_SECOND } });
        return 0;
      },
    };
  },
};

const registering: Neighbour = {
  name: "registering",
  prepare: async (_bench, world) => {
    const silent = await openSilentReceiver();
    return {
      events: 0,
      begin: async () => {
        await Promise.all(["first", "second"].map(async (name) => await registerMany(world, name, silent)));
        return 0;
      },
      end: () => silent.close(),
    };
  },
};

const replaying: Neighbour = {
  name: "replaying",
  prepare: async (_bench, world) => {
    const group = await noisyGroup(world, 1);
    const tenantId = group.tenants[0]?.id ?? "";
    await withClient(world.adminDatabaseUrl, async (client) => {
      const { rows } = await client.query<{ id: string }>("SELECT id FROM endpoints WHERE tenant_id = $1", [
        tenantId,
      ]);
      await seedDeadLetters(client, { tenantId, endpointId: rows[0]?.id ?? "", count: REPLAYED });
    });
    return {
      events: 0,
      begin: async () => {
        await replayAll(world, group);
        return 0;
      },
    };
  },
};

const publishing: Neighbour = {
  name: "publishing",
  prepare: async (bench, world) => {
    const group = await noisyGroup(world, 10);
    const events = bench.events(BATCHED_EVENTS);
    return {
      events,
      begin: async (run) =>
        (await run.publish({ group, events, pace: { kind: "closed", connections: 2, batch: BATCH } }))
          .accepted,
    };
  },
};

/** Measures the victim alone, then beside the neighbour. @returns how many times longer its deliveries take */
async function besides(neighbour: Neighbour, bench: Bench): Promise<{ p95: number; p99: number }> {
  const { name } = neighbour;
  const world = await bench.world({}, `noisy-${name}`);
  const victim = await world.group({ name: "victim", tenants: 1, endpointsPerTenant: 1, fanOut: "one" });
  const disturbance = await neighbour.prepare(bench, world);
  const pace = { kind: "open", perSecond: PER_SECOND } as const;
  const quiet = await bench.measure(world, {
    name: `noisy-neighbour-${name}-quiet`,
    warmUp: 200,
    flow: { group: victim, events: PER_SECOND * bench.seconds(QUIET_SECONDS), pace },
  });

  const events = PER_SECOND * bench.seconds(NOISY_SECONDS);
  const run = await Run.begin(world, bench.load, { events: disturbance.events + events });
  const [arriving, healthy] = await Promise.all([
    disturbance.begin(run),
    run.publish({ group: victim, events, pace }),
  ]);
  // Deliveries that hang or fail do not arrive.
  await run.delivered(arriving + healthy.accepted, { idleMs: 5_000, maxMs: 60_000 });
  const usage = await run.usage();
  const statistics = await run.statistics(healthy);
  const ratios = {
    p95: round(statistics.latencyMs.p95 / quiet.latency_ms.p95, 2),
    p99: round(statistics.latencyMs.p99 / quiet.latency_ms.p99, 2),
  };
  bench.record({
    name: `noisy-neighbour-${name}`,
    settings: world.settings,
    load: describeLoad({ group: victim, events, pace }),
    statistics,
    usage,
    notes: { p95_ratio: ratios.p95, p99_ratio: ratios.p99 },
  });
  // What it left behind would be retried for days.
  await world.stop();
  disturbance.end?.();
  return ratios;
}

async function runScenario(bench: Bench): Promise<void> {
  const ratios: Record<string, { p95: number; p99: number }> = {};
  for (const neighbour of [hanging, failing, registering, replaying, publishing]) {
    ratios[neighbour.name] = await besides(neighbour, bench);
  }
  const worst = (which: "p95" | "p99"): number =>
    Math.max(...Object.values(ratios).map((ratio) => ratio[which]));
  bench.findings["noisy_neighbour"] = { ratios, worst: { p95: worst("p95"), p99: worst("p99") } };
  bench.log(`noisy-neighbour: ${JSON.stringify(ratios)}`);
}

export const noisyNeighbour: Scenario = {
  name: "noisy-neighbour",
  about:
    "50/s of one tenant beside 50 endpoints that hang, one that fails at 250/s, 100 registrations, a replay of 10,000, and batches",
  run: runScenario,
};
