/** Deliveries of one tenant, while another tenant's receivers hang or fail, or while it registers, replays or publishes. */
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import { withClient } from "../environment/postgres.ts";
import { accessToken } from "../environment/provision.ts";
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
/** An event to as many endpoints on each of these connections, and a batch whose events go to fewer. */
const [WIDE_ENDPOINTS, WIDE_CONNECTIONS, BATCH_ENDPOINTS] = [4_000, 4, 1_500];
const PER_SECOND = 50;
const QUIET_SECONDS = 20;
const NOISY_SECONDS = 40;

interface Disturbance {
  /** Number of events that it publishes in the run. */
  readonly events: number;
  /** Begins with the victim's events. `over` says whether these are published. @returns how many of its own events arrive */
  begin(run: Run, over: () => boolean): Promise<number>;
  end?(): void;
  /** Figures of its own. */
  readonly notes?: Readonly<Record<string, number>>;
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

/** A tenant of which every event goes to all of `endpoints`. Answers by status and the longest one are in `notes`. */
function wide(name: string, endpoints: number, connections: number, events: number): Neighbour {
  return {
    name,
    prepare: async (_bench, world) => {
      const shape = { tenants: 1, endpointsPerTenant: endpoints, fanOut: "all", inserted: true } as const;
      const group = await world.group({ ...shape, name: "noisy" });
      const [tenant] = group.tenants;
      const token = tenant === undefined ? "" : await accessToken(world.signet, tenant);
      const notes: Record<string, number> = { longest_answer_s: 0 };
      const event = { type: group.types[0], data: {} };
      const body = JSON.stringify(
        events === 1 ? event : { events: Array.from({ length: events }, () => event) },
      );
      const note = (status: string | number): void => {
        notes[`answers_${status}`] = (notes[`answers_${status}`] ?? 0) + 1;
      };
      const publish = async (): Promise<void> => {
        const begun = performance.now();
        const response = await fetch(`${world.signet.apiUrl}/v1/events`, {
          method: "POST",
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          body,
        });
        const { data = [] } = (await response.json()) as { data?: readonly { readonly id?: string }[] };
        for (const { id } of data) {
          note(id === undefined ? "without_event" : "with_event");
        }
        note(response.status);
        const seconds = round((performance.now() - begun) / 1_000, 2);
        notes["longest_answer_s"] = Math.max(notes["longest_answer_s"] ?? 0, seconds);
      };
      return {
        events: 0,
        notes,
        begin: async (_run, over) => {
          const goesOn = (): boolean => events === 1 && !over();
          await Promise.all(
            Array.from({ length: connections }, async () => {
              do {
                await publish();
              } while (goesOn());
            }),
          );
          return 0;
        },
      };
    },
  };
}

interface Ratios {
  readonly p95: number;
  readonly p99: number;
  /** Of the answers to its publishes. */
  readonly ack_p99: number;
}

/** Measures the victim alone, then beside the neighbour. @returns how many times longer its deliveries take */
async function besides(neighbour: Neighbour, bench: Bench): Promise<Ratios> {
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
  let over = false;
  const [arriving, healthy] = await Promise.all([
    disturbance.begin(run, () => over),
    run.publish({ group: victim, events, pace }).finally(() => {
      over = true;
    }),
  ]);
  // Deliveries that hang or fail do not arrive.
  await run.delivered(arriving + healthy.accepted, { idleMs: 5_000, maxMs: 60_000 });
  const usage = await run.usage();
  const statistics = await run.statistics(healthy);
  const ratios = {
    p95: round(statistics.latencyMs.p95 / quiet.latency_ms.p95, 2),
    p99: round(statistics.latencyMs.p99 / quiet.latency_ms.p99, 2),
    ack_p99: round(statistics.ackMs.p99 / quiet.ack_ms.p99, 2),
  };
  bench.record({
    name: `noisy-neighbour-${name}`,
    settings: world.settings,
    load: describeLoad({ group: victim, events, pace }),
    statistics,
    usage,
    notes: {
      p95_ratio: ratios.p95,
      p99_ratio: ratios.p99,
      ack_p99_ratio: ratios.ack_p99,
      ...disturbance.notes,
    },
  });
  // What it left behind would be retried for days.
  await world.stop();
  disturbance.end?.();
  return ratios;
}

function scenario(name: string, about: string, neighbours: readonly Neighbour[]): Scenario {
  return {
    name,
    about,
    run: async (bench) => {
      const ratios: Record<string, Ratios> = {};
      for (const neighbour of neighbours) {
        ratios[neighbour.name] = await besides(neighbour, bench);
      }
      const worst = (which: keyof Ratios): number =>
        Math.max(...Object.values(ratios).map((ratio) => ratio[which]));
      bench.findings[name.replaceAll("-", "_")] = {
        ratios,
        worst: { p95: worst("p95"), p99: worst("p99"), ack_p99: worst("ack_p99") },
      };
      bench.log(`${name}: ${JSON.stringify(ratios)}`);
    },
  };
}

export const noisyNeighbour = scenario(
  "noisy-neighbour",
  "50/s of one tenant beside 50 endpoints that hang, one that fails at 250/s, 100 registrations, a replay of 10,000, and batches",
  [hanging, failing, registering, replaying, publishing],
);

export const wideNeighbour = scenario(
  "wide-neighbour",
  "50/s of one tenant beside events to 4,000 endpoints on 4 connections, and a batch of 1,000 events to 1,500",
  [wide("each-on-four", WIDE_ENDPOINTS, WIDE_CONNECTIONS, 1), wide("batch", BATCH_ENDPOINTS, 1, BATCH)],
);
