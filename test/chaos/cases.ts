/** The cases: their faults, and the bounds that must hold. */
import { namespaceMissing, postgresOlder, temporalDeleted, temporalOlder } from "./copies.ts";
import { apiDescriptorsTaken, diskFull, supervised } from "./exhaustion.ts";
import { type Fault, kill, silence, stop, type VictimName, wrongClock } from "./faults.ts";
import type { Setting } from "./place.ts";
import type { CaseOutcome } from "./result.ts";
import { type FaultCase, runCase } from "./run-case.ts";
import { backlog } from "./scenarios/backlog.ts";
import { CELL_CUT } from "./scenarios/cell-cut.ts";
import { CLOCKS_APART } from "./scenarios/clocks-apart.ts";
import { LETTERS_EXPIRE } from "./scenarios/letters-expire.ts";
import { CUTS } from "./scenarios/cuts.ts";
import { FAILOVERS } from "./scenarios/failover.ts";
import { HUBS } from "./scenarios/hubs.ts";
import { hangingNeighbour, registrations } from "./scenarios/neighbours.ts";
import { POOLERS } from "./scenarios/pooler.ts";
import { RACES } from "./scenarios/races.ts";
import { REPLAY_KILL } from "./scenarios/replay-kill.ts";
import { rollingRestart } from "./scenarios/rolling-restart.ts";
import { soak } from "./scenarios/soak.ts";
import { STANDBY_GONE } from "./scenarios/standby-gone.ts";
import { TEMPORAL_SILENT } from "./scenarios/temporal-silent.ts";
import { WORKER_MEMORY } from "./scenarios/worker-memory.ts";
import { UPGRADE } from "./scenarios/upgrade.ts";
import { YEAR_END } from "./scenarios/year-end.ts";
import { type HostileEndpoint, type Length, sizeOf } from "./traffic.ts";
import type { Scene } from "./trial.ts";

export interface SetScene extends Scene {
  /** Duration of a soak. */
  readonly minutes: number;
  readonly log: (line: string) => void;
}

export interface ChaosCase {
  readonly name: string;
  readonly about: string;
  readonly setting?: Setting;
  run(scene: SetScene): Promise<CaseOutcome>;
}

/** Time until deliveries flow again after recovery, in seconds (docs/guarantees.md). */
const FLOW_SECONDS = 10;
/** The same beside other tests, where starting a process takes most of the time. */
const BUSY_FLOW_SECONDS = 60;
/** The same if another process of its kind keeps running. */
const OTHERS_FLOW_SECONDS = 5;
/** Lost workflows are detected within a minute. */
const MISSED_SECONDS = 60;
const DRAINED_SECONDS = 180;

/** The same after connections went silent. */
const SILENT_FLOW_SECONDS = 15;

const TWO: Setting = { shape: { apis: 2, workers: 2 } };

/** Resets, hangs, and responses just within and just beyond the sender's timeout of 10 s. */
const hostile = (beyondMs = 10_100): readonly HostileEndpoint[] => [
  { behaviour: { kind: "reset", attempts: 1 }, punctual: false },
  { behaviour: { kind: "hang", attempts: 1 }, punctual: false },
  { behaviour: { kind: "delay", ms: 9_900 }, punctual: true },
  { behaviour: { kind: "delay", ms: beyondMs, attempts: 1 }, punctual: false },
];

const PACES = ["steady", "saturation"] as const;
const PACE_NAMES = { steady: "200", saturation: "saturation" } as const;
const PACE_WORDS = { steady: "at 200/s", saturation: "at saturation" } as const;

const VICTIMS: readonly (readonly [VictimName, string])[] = [
  ["worker", "the worker"],
  ["api", "the api"],
  ["temporal", "Temporal"],
  ["postgres", "PostgreSQL"],
];

interface FaultSpec extends Partial<FaultCase> {
  readonly name: string;
  readonly about: string;
  readonly setting?: Setting;
  readonly length?: Length;
}

/** Creates a case at a steady pace with temporary faults, unless `own` overrides it. */
function faultCase({ name, about, setting, length = "short", ...own }: FaultSpec): ChaosCase {
  const chaos: FaultCase = { pace: "steady", hostile: [], faults: [], flowSeconds: FLOW_SECONDS, ...own };
  return {
    name,
    about,
    ...(setting === undefined ? {} : { setting }),
    run: async (scene) => await runCase(scene, chaos, sizeOf(length, scene.quick)),
  };
}

function kills(): ChaosCase[] {
  return VICTIMS.flatMap(([victim, words]) =>
    PACES.map((pace) =>
      faultCase({
        name: `kill-${victim}-${PACE_NAMES[pace]}`,
        about: `kill -9 of ${words} ${PACE_WORDS[pace]}, restarted after 1 s`,
        pace,
        faults: [kill(victim)],
      }),
    ),
  );
}

function stops(): ChaosCase[] {
  return VICTIMS.flatMap(([victim, words]) =>
    PACES.map((pace) =>
      faultCase({
        name: `stop-${victim}-${PACE_NAMES[pace]}`,
        about: `SIGSTOP of ${words} for 15 s ${PACE_WORDS[pace]}`,
        pace,
        faults: [stop(victim)],
      }),
    ),
  );
}

function receivers(): ChaosCase[] {
  return PACES.map((pace) =>
    faultCase({
      name: `receivers-${PACE_NAMES[pace]}`,
      about: `receivers that reset, hang, answer after 9.9 s and after 10.1 s beside healthy ones, ${PACE_WORDS[pace]}`,
      pace,
      hostile: hostile(),
    }),
  );
}

/** All processes at once, and single ones while another of their kind keeps running. */
function together(): ChaosCase[] {
  return [
    faultCase({ name: "kill-all", about: "kill -9 of every process at once", faults: [kill("all")] }),
    faultCase({ name: "stop-all", about: "SIGSTOP of every process at once", faults: [stop("all")] }),
    ...(["worker", "api"] as const).flatMap((victim) =>
      ([kill, stop] as const).map((act) =>
        faultCase({
          name: `two-${act.name}-${victim}`,
          about: `${act === kill ? "kill -9" : "SIGSTOP"} of one ${victim} of two`,
          faults: [act(victim)],
          setting: TWO,
          flowSeconds: OTHERS_FLOW_SECONDS,
          gapSeconds: OTHERS_FLOW_SECONDS,
        }),
      ),
    ),
    ...([kill, stop] as const).map((act) =>
      faultCase({
        name: `two-${act.name}-all`,
        about: `${act === kill ? "kill -9" : "SIGSTOP"} of every process at once, two apis and two workers`,
        faults: [act("all")],
        setting: TWO,
      }),
    ),
  ];
}

/** Faulty connections and clocks. */
function deceptions(): ChaosCase[] {
  return [
    faultCase({
      name: "half-open",
      about: "every connection to PostgreSQL goes silent, twice; new ones work",
      length: "long",
      setting: { throughProxy: true },
      faults: [silence, silence],
      flowSeconds: SILENT_FLOW_SECONDS,
    }),
    faultCase({
      name: "wrong-clock",
      about: "the worker's clock is 10 minutes ahead for 40 s, then 10 minutes behind",
      length: "long",
      setting: { wrongClock: "worker" },
      faults: [wrongClock],
      flowSeconds: MISSED_SECONDS,
      drainedSeconds: MISSED_SECONDS,
    }),
  ];
}

/** Data that is lost, or older than the rest. */
function copies(): ChaosCase[] {
  const lost = { length: "long", flowSeconds: MISSED_SECONDS, drainedSeconds: DRAINED_SECONDS } as const;
  return [
    faultCase({
      ...lost,
      name: "temporal-deleted",
      about: "Temporal's databases are deleted; it starts with empty ones",
      faults: [temporalDeleted],
    }),
    faultCase({
      ...lost,
      name: "temporal-older",
      about: "Temporal is restored from a backup one minute older than PostgreSQL",
      faults: [temporalOlder],
    }),
    faultCase({
      ...lost,
      name: "namespace-missing",
      about: "Temporal's namespace is deleted, and created again after 40 s",
      faults: [namespaceMissing],
    }),
    faultCase({
      ...lost,
      name: "postgres-older",
      about: "PostgreSQL is restored from a backup one minute older than Temporal; publishers publish again",
      faults: [postgresOlder],
    }),
  ];
}

/** A fault on the case's own disk. */
function onSmallDisk(name: string, under: "postgres" | "log", about: string): ChaosCase {
  return {
    name,
    about,
    setting: { smallDisk: under, settings: under === "log" ? { SIGNET_LOG_LEVEL: "debug" } : {} },
    run: async (scene) => {
      const fault: Fault = diskFull(() => {
        if (scene.disk === undefined) {
          throw new Error("this case needs its own disk");
        }
        return scene.disk;
      }, under);
      const chaos: FaultCase = { pace: "steady", hostile: [], faults: [fault], flowSeconds: FLOW_SECONDS };
      return await runCase(scene, chaos, sizeOf("long", scene.quick));
    },
  };
}

const LARGE_BYTES = 200_000;

function exhausted(): ChaosCase[] {
  return [
    onSmallDisk("disk-full-postgres", "postgres", "the disk under PostgreSQL is full for 40 s"),
    onSmallDisk("disk-full-log", "log", "the disk under the processes' logs is full for 40 s"),
    faultCase({
      name: "descriptors-api",
      about: "400 idle connections take the 256 descriptors of the api",
      setting: { shape: { api: { descriptors: 256 } } },
      faults: [apiDescriptorsTaken],
    }),
    faultCase({
      name: "descriptors-worker",
      about: "a worker with 128 descriptors, receivers that take 2 s, at saturation",
      setting: { shape: { worker: { descriptors: 128 } } },
      pace: "saturation",
      behaviour: { kind: "delay", ms: 2_000 },
      everyAttemptArrives: true,
      faults: [supervised],
    }),
    ...(["api", "worker"] as const).map((victim) =>
      faultCase({
        name: `memory-${victim}`,
        about: `a heap of ${victim === "api" ? 64 : 80} MiB for the ${victim}, events of 200 kB at saturation`,
        setting: { shape: { [victim]: { node: [`--max-old-space-size=${victim === "api" ? 64 : 80}`] } } },
        pace: "saturation",
        payloadBytes: LARGE_BYTES,
        faults: [supervised],
      }),
    ),
  ];
}

const SCENARIOS: readonly ChaosCase[] = [
  {
    name: "rolling-restart",
    about: "two apis behind a balancer and two workers end by SIGTERM one after the other, twice, at 60/s",
    setting: TWO,
    run: rollingRestart,
  },
  {
    name: "backlog",
    about: "50,000 events while every receiver is down, then all are up",
    run: backlog,
  },
  {
    name: "hanging-neighbour",
    about: "1,000 endpoints of one tenant hang, beside a healthy tenant and one whose first attempts fail",
    setting: { settings: { SIGNET_ENDPOINTS_PER_TENANT: "1000" } },
    run: hangingNeighbour,
  },
  {
    name: "registrations",
    about: "two tenants register 50 silent endpoints each while a third verifies its own",
    run: registrations,
  },
  {
    name: "soak",
    about:
      "60 minutes (--minutes) at 30/s, a day every 5 minutes, three in ten attempts fail: memory, descriptors, tables",
    run: soak,
  },
];

export const CASES: readonly ChaosCase[] = [
  ...kills(),
  ...stops(),
  ...receivers(),
  ...together(),
  ...deceptions(),
  ...copies(),
  ...exhausted(),
  ...POOLERS,
  ...TEMPORAL_SILENT,
  ...FAILOVERS,
  STANDBY_GONE,
  REPLAY_KILL,
  LETTERS_EXPIRE,
  RACES,
  CELL_CUT,
  CLOCKS_APART,
  UPGRADE,
  YEAR_END,
  ...CUTS,
  ...HUBS,
  ...SCENARIOS,
  ...WORKER_MEMORY,
];

/** The case in `npm test`: kill -9 of the worker, then of PostgreSQL, with hostile receivers. */
export const SHORT_CASE: FaultCase = {
  pace: "steady",
  faults: [kill("worker"), kill("postgres")],
  // A busy machine that stalls at 10 s would send the response before the sender closes the connection.
  hostile: hostile(13_000),
  flowSeconds: BUSY_FLOW_SECONDS,
};
