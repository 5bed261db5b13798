/** The environment in which scenarios run. */
import type { Settings, Shape } from "../environment/signet.ts";
import type { Stack } from "../environment/stack.ts";
import { type TenantGroup, World, type WorldOptions } from "../environment/world.ts";
import type { LoadGenerator } from "../load/load-generator.ts";
import type { BordersOptions, PeersOptions } from "../options.ts";
import type { TimeWindow } from "../measure/cpu-profile.ts";
import { describeMeasurement, type LoadDescription, type Measurement } from "../report/measurement.ts";
import { measurementLine } from "../report/print.ts";
import { type Flow, PAYLOAD_BYTES, Run } from "./run.ts";

export interface Scenario {
  readonly name: string;
  readonly about: string;
  /** Longest time it may take (default: 20 minutes). */
  readonly timeoutMs?: number;
  run(bench: Bench): Promise<void>;
}

export interface BenchParts {
  readonly stack: Stack;
  readonly load: LoadGenerator;
  readonly quick: boolean;
  readonly raised: Settings;
  readonly profiles: string | undefined;
  /** Whether api and worker are one process. */
  readonly together: boolean;
  /** Turns of each system in comparisons. */
  readonly rounds: number;
  readonly peers: PeersOptions;
  readonly borders: BordersOptions;
  /** Axes of `growth`; empty for all. */
  readonly axes: readonly string[];
  /** Pids of the processes that only keep the machine busy. */
  readonly busy: readonly number[];
  readonly log: (line: string) => void;
}

export interface MeasureOptions {
  readonly name: string;
  readonly flow: Flow;
  /** Number of events published before the measurement and not counted. */
  readonly warmUp: number;
  /** Deliveries per event. */
  readonly slots?: number;
  readonly notes?: Readonly<Record<string, unknown>>;
}

/** Describes the flow for the record. */
export function describeLoad(
  { group, events, pace, payloadBytes = PAYLOAD_BYTES }: Flow,
  slots = 1,
): LoadDescription {
  return {
    events,
    tenants: group.tenants.length,
    endpoints: group.endpoints.length,
    deliveries_per_event: slots,
    payload_bytes: payloadBytes,
    ...(pace.kind === "closed"
      ? { connections: pace.connections, events_per_request: pace.batch }
      : { events_per_second: pace.perSecond }),
  };
}

const COMMON = "common";

export class Bench {
  readonly stack: Stack;
  readonly load: LoadGenerator;
  readonly quick: boolean;
  readonly rounds: number;
  readonly peers: PeersOptions;
  readonly borders: BordersOptions;
  readonly axes: readonly string[];
  readonly busy: readonly number[];
  readonly log: (line: string) => void;
  readonly measurements: Measurement[] = [];
  /** Time windows of the measurements. */
  readonly windows: TimeWindow[] = [];
  /** Other findings, by scenario. */
  readonly findings: Record<string, unknown> = {};
  readonly #parts: BenchParts;
  readonly #worlds = new Map<string, World>();

  constructor(parts: BenchParts) {
    this.#parts = parts;
    this.stack = parts.stack;
    this.load = parts.load;
    this.quick = parts.quick;
    this.rounds = parts.rounds;
    this.peers = parts.peers;
    this.borders = parts.borders;
    this.axes = parts.axes;
    this.busy = parts.busy;
    this.log = parts.log;
  }

  /** Returns the number of events; a tenth of it with --quick. */
  events(count: number): number {
    return this.quick ? Math.ceil(count / 10) : count;
  }

  /** Returns the number of seconds; a quarter of it with --quick. */
  seconds(count: number): number {
    return this.quick ? Math.ceil(count / 4) : count;
  }

  /**
   * Returns the world of that name, with Signet running on these settings. The first call creates it on an empty
   * database. Only one world's Signet runs at a time.
   *
   * @param shape number of processes (default: one api and one worker), the same at each call
   * @param build another commit's, the same at each call
   */
  async world(
    settings: Settings = {},
    name: string = COMMON,
    shape?: Shape,
    build?: Pick<WorldOptions, "dist" | "dockerfile">,
  ): Promise<World> {
    for (const [other, world] of this.#worlds) {
      if (other !== name) {
        await world.stop();
      }
    }
    const { stack, load, raised, profiles, together } = this.#parts;
    const world =
      this.#worlds.get(name) ??
      (await World.create({ name, stack, load, raised, profiles, shape: { ...shape, together }, ...build }));
    this.#worlds.set(name, world);
    await world.run(settings);
    return world;
  }

  /** The group of most scenarios: ten tenants with one endpoint each. */
  async tenTenants(world: World): Promise<TenantGroup> {
    return await world.group({ name: "ten", tenants: 10, endpointsPerTenant: 1, fanOut: "one" });
  }

  /** Publishes a flow, waits for its deliveries and records the measurement. */
  async measure(world: World, options: MeasureOptions): Promise<Measurement> {
    const { name, flow, warmUp, slots = 1, notes } = options;
    if (warmUp > 0) {
      const warm = await Run.begin(world, this.load, { events: warmUp, slots });
      const { accepted } = await warm.publish({ ...flow, events: warmUp });
      await warm.delivered(accepted);
    }
    const run = await Run.begin(world, this.load, { events: flow.events, slots });
    const published = await run.publish(flow);
    await run.delivered(published.accepted);
    const usage = await run.usage();
    return this.record({
      name,
      settings: world.settings,
      raised: this.#parts.raised,
      load: describeLoad(flow, slots),
      statistics: await run.statistics(published),
      usage,
      ...(notes === undefined ? {} : { notes }),
    });
  }

  record(
    parts: Omit<Parameters<typeof describeMeasurement>[0], "raised"> & { raised?: Settings },
  ): Measurement {
    const measurement = describeMeasurement({ raised: this.#parts.raised, ...parts });
    this.measurements.push(measurement);
    this.windows.push(parts.usage.window);
    this.log(measurementLine(measurement));
    return measurement;
  }

  /** Stops the processes of all worlds. */
  async stop(): Promise<void> {
    for (const world of this.#worlds.values()) {
      await world.stop();
    }
  }

  async drop(): Promise<void> {
    for (const world of this.#worlds.values()) {
      await world.drop();
    }
  }
}
