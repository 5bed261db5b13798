/**
 * This commit and another one, in turns on one machine, under the same loads. They share PostgreSQL and Temporal, and
 * each has its own database, migrations and namespace. So only Signet differs.
 */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Named } from "../command-line.ts";
import { buildCommit, type OtherBuild } from "../environment/other-build.ts";
import type { World } from "../environment/world.ts";
import { signetOnly, sum } from "../measure/meter.ts";
import { cpuSeconds, pssMiB } from "../measure/process-tree.ts";
import {
  comparisonTable,
  compareTurns,
  orderOf,
  RATIO_MAX,
  type Side,
  type TurnFigures,
} from "../report/against.ts";
import { type Figures, type Measurement, round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { turn } from "./http-turns.ts";
import { untilQuiet } from "./run.ts";
import { saturationOf, singles } from "./saturation.ts";
import { signetSubject } from "./tokens.ts";

const TIMEOUT_MS = 3 * 60 * 60_000;
/** Processes that have just started still compile and read. */
const SETTLE_MS = 5_000;
const IDLE_SECONDS = 30;
const OPEN_SECONDS = 20;
const CONNECTIONS = 64;
/** A process that has just started is slow, so the first deliveries of a turn are many. */
const WARM_UP = 1_000;

interface Turn {
  readonly bench: Bench;
  readonly world: World;
  /** Beginning of the measurements' names. */
  readonly name: string;
}

/** A load of each turn, which `--only` selects by name. */
export interface ComparedLoad extends Named {
  readonly measure: (turn: Turn) => Promise<Figures>;
}

function costsOf(measurement: Measurement): Figures {
  return {
    cpu_s_per_1000: measurement.cpu_s_per_1000["total"] ?? Number.NaN,
    wal_bytes_per_delivery: measurement.wal_bytes_per_delivery,
  };
}

function openLoop(perSecond: number): ComparedLoad {
  return {
    name: `open-${perSecond}`,
    about: `${perSecond} events per second for ${OPEN_SECONDS} s over 10 endpoints`,
    measure: async ({ bench, world, name }) => {
      const measurement = await bench.measure(world, {
        name: `${name}-open-${perSecond}`,
        warmUp: bench.events(WARM_UP),
        flow: {
          group: await bench.tenTenants(world),
          events: perSecond * bench.seconds(OPEN_SECONDS),
          pace: { kind: "open", perSecond },
        },
      });
      const { p50, p99 } = measurement.latency_ms;
      return { p50_ms: p50, p99_ms: p99, ...costsOf(measurement) };
    },
  };
}

const memory: ComparedLoad = {
  name: "memory",
  about: "proportional set size of api and worker after their start",
  measure: async ({ world }) => {
    await delay(SETTLE_MS);
    return { mib: round(sum(pssMiB(signetOnly(world.roots.system))), 1) };
  },
};

const idle: ComparedLoad = {
  name: "idle",
  about: `cores of Signet, Temporal and PostgreSQL without load, over ${IDLE_SECONDS} s`,
  measure: async ({ bench, world }) => {
    const { system } = world.roots;
    await untilQuiet(system);
    await delay(SETTLE_MS);
    const [before, beganMs] = [sum(cpuSeconds(system)), performance.now()];
    await delay(bench.seconds(IDLE_SECONDS) * 1_000);
    const seconds = (performance.now() - beganMs) / 1_000;
    return { cores: round((sum(cpuSeconds(system)) - before) / seconds, 4) };
  },
};

const tokens: ComparedLoad = {
  name: "tokens",
  about: "access tokens on 32 connections, closed loop, plain HTTP",
  measure: async ({ bench, world }) => {
    const {
      tenants: [tenant],
    } = await bench.tenTenants(world);
    if (tenant === undefined) {
      throw new Error("the group has no tenants");
    }
    const { perSecond, cpuPerThousand, latencyMs } = await turn(bench, signetSubject(world, tenant));
    return {
      per_second: perSecond,
      p50_ms: latencyMs.p50,
      p99_ms: latencyMs.p99,
      cpu_s_per_1000: cpuPerThousand,
    };
  },
};

const saturation: ComparedLoad = {
  name: "saturation",
  about: `20,000 events over 10 endpoints on ${CONNECTIONS} connections`,
  measure: async ({ bench, world, name }) => {
    const { events, warmUp } = saturationOf(bench);
    const measurement = await bench.measure(world, {
      name: `${name}-saturation`,
      warmUp,
      flow: { group: await bench.tenTenants(world), events, pace: singles(CONNECTIONS) },
    });
    return {
      per_second: measurement.deliveries_per_second,
      ...costsOf(measurement),
      peak_mib: measurement.signet_pss_peak_mib,
    };
  },
};

/** In the order of a turn: what a load would disturb comes first. */
export const COMPARED: readonly ComparedLoad[] = [
  memory,
  idle,
  tokens,
  openLoop(50),
  openLoop(200),
  saturation,
];

interface Compared {
  readonly bench: Bench;
  readonly loads: readonly ComparedLoad[];
  readonly other: OtherBuild;
}

async function worldOf({ bench, other }: Compared, side: Side): Promise<World> {
  return await bench.world({}, `against-${side}`, {}, side === "other" ? other : {});
}

async function takeTurn(
  compared: Compared,
  side: Side,
  number: number,
  record: (turn: TurnFigures) => void,
): Promise<void> {
  const { bench, loads } = compared;
  const world = await worldOf(compared, side);
  for (const { name: load, measure } of loads) {
    const figures = await measure({ bench, world, name: `${side}-${number}` });
    record({ load, side, round: number, figures });
    bench.log(`${number} ${side.padEnd(6)}${load.padEnd(12)}${JSON.stringify(figures)}`);
  }
  await world.stop();
}

async function takeTurns(compared: Compared, record: (turn: TurnFigures) => void): Promise<void> {
  const { bench } = compared;
  const sides = orderOf(1);
  // What endpoints cost when they are registered belongs to no turn.
  for (const side of sides) {
    const world = await worldOf(compared, side);
    await bench.tenTenants(world);
    await world.stop();
  }
  for (let number = 1; number <= bench.rounds; number += 1) {
    for (const side of orderOf(number)) {
      await takeTurn(compared, side, number, record);
    }
  }
}

async function compare(bench: Bench, ref: string, loads: readonly ComparedLoad[]): Promise<void> {
  const { stack, rounds, log } = bench;
  const directory = join(stack.directory, "other-commit");
  const other = await buildCommit(ref, { directory, janitor: stack.janitor, log });
  const runs: TurnFigures[] = [];
  try {
    await takeTurns({ bench, loads, other }, (turn) => runs.push(turn));
  } finally {
    bench.findings["against"] = { ref, commit: other.commit, rounds, figures: compareTurns(runs), runs };
    log(`\n${comparisonTable(compareTurns(runs))}`);
  }
  const worse = compareTurns(runs).filter(({ verdict }) => verdict === "worse");
  if (worse.length > 0) {
    const names = worse.map(({ load, figure, times_as_bad: times }) => `${load} ${figure} (${times})`);
    throw new Error(`more than ${RATIO_MAX} times as bad as ${ref}: ${names.join(", ")}`);
  }
}

/** Returns the scenario that compares with that commit. */
export function comparison(ref: string, loads: readonly ComparedLoad[]): Scenario {
  return {
    name: "against",
    about: `this commit and ${ref} in turns: ${loads.map(({ name }) => name).join(", ")}`,
    timeoutMs: TIMEOUT_MS,
    run: async (bench) => await compare(bench, ref, loads),
  };
}
