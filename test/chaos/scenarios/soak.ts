/**
 * Simulated weeks at a steady rate with three in ten attempts failing. The clocks of PostgreSQL and of all processes
 * jump to the next day again and again, and retention drops the oldest one. Checks that nothing grows without bound.
 */
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { withClient } from "#test/bench/environment/postgres.ts";
import { pssMiB } from "#test/bench/measure/process-tree.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { World } from "#test/bench/environment/world.ts";
import type { SetScene } from "../cases.ts";
import { countLedger, type Fate } from "../ledger.ts";
import { openWorkflows, workerGauge } from "../observe.ts";
import type { TargetResult } from "#test/bench/report/targets.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { promises } from "../run-case.ts";
import { healthyGroup, type PublishedPart, repeatedAnswers } from "../traffic.ts";
import { Trial } from "../trial.ts";
import { until } from "./tenant-requests.ts";
import { inShiftedWorld, runUpkeep } from "./shifted-world.ts";

const PER_SECOND = 30;
const FAILING_PERCENT = 30;
/** An event succeeds after this many failures, because the test measures growth and not the schedule's last hours. */
const FAILURES_MAX = 3;
const QUICK_MINUTES = 5;
/** How long events flow on each simulated day. */
const DAY_SECONDS = { full: 300, quick: 20 } as const;
/** The least that `SIGNET_RETENTION_DAYS` allows. The soak is longer, so that days are dropped. */
const RETENTION_DAYS = 8;
const DAY_S = 86_400;
const READY_MS = 60_000;
const NIGHT = { idleMs: 60_000, maxMs: 120_000 };
const SAMPLES = 60;
const SAMPLE_MIN_MS = 2_000;
const DRAIN = { idleMs: 120_000, maxMs: 300_000 };
const HOUR_S = 3_600;

const MIB = 1_048_576;

interface Sample {
  readonly atS: number;
  readonly tables: Readonly<Record<string, number>>;
  readonly values: Readonly<Record<string, number>>;
}

function descriptors(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return Number.NaN;
  }
}

/** Returns the resident memory of a process; NaN if it has ended. */
export function residentMiB(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) / 1_024;
  } catch {
    return Number.NaN;
  }
}

/** Returns the bytes of each table with its indexes. A partitioned table counts with all its parts. */
async function tableBytes(world: World): Promise<Readonly<Record<string, number>>> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ name: string; bytes: string }>(
      `SELECT coalesce(pg_partition_root(c.oid), c.oid)::regclass::text AS name, sum(pg_total_relation_size(c.oid)) AS bytes
       FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') GROUP BY 1`,
    );
    return Object.fromEntries(rows.map(({ name, bytes }) => [name, Number(bytes)]));
  });
}

async function sample(world: World, beganMs: number): Promise<Sample> {
  const pids = world.signet.pids;
  const tables = await tableBytes(world);
  const { temporal = 0, postgres = 0 } = pssMiB(world.roots.system);
  return {
    atS: (performance.now() - beganMs) / 1_000,
    tables,
    values: {
      api_mib: residentMiB(pids.signet_api),
      worker_mib: residentMiB(pids.signet_worker),
      worker_heap_mib: (await workerGauge(world, "nodejs_heap_size_used_bytes")) / MIB,
      temporal_mib: temporal,
      postgres_mib: postgres,
      api_descriptors: descriptors(pids.signet_api),
      worker_descriptors: descriptors(pids.signet_worker),
      open_workflows: await openWorkflows(world),
      database_mib: Object.values(tables).reduce((sum, bytes) => sum + bytes, 0) / MIB,
    },
  };
}

/** Returns the growth of a value per hour, by least squares. */
function perHour(samples: readonly Sample[], name: string): number {
  const points = samples.map(({ atS, values }) => [atS, values[name] ?? 0] as const);
  const mean = (of: (point: readonly [number, number]) => number): number =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length;
  const [x, y] = [mean(([atS]) => atS), mean(([, value]) => value)];
  const above = points.reduce((sum, [atS, value]) => sum + (atS - x) * (value - y), 0);
  const below = points.reduce((sum, [atS]) => sum + (atS - x) ** 2, 0);
  return (above / below) * HOUR_S;
}

function mean(samples: readonly Sample[], name: string): number {
  return samples.reduce((sum, { values }) => sum + (values[name] ?? 0), 0) / samples.length;
}

const BOUNDED = [
  "api_mib",
  "worker_mib",
  "api_descriptors",
  "worker_descriptors",
  "open_workflows",
  "database_mib",
] as const;
const GAUGES = [...BOUNDED, "worker_heap_mib", "temporal_mib", "postgres_mib"];
/** Values that are reported for each gauge, at equal distances. */
const SERIES_LENGTH = 12;

function series(samples: readonly Sample[]): Record<string, number[]> {
  const step = Math.max(1, Math.floor(samples.length / SERIES_LENGTH));
  const shown = samples.filter((_, index) => index % step === 0);
  return Object.fromEntries(
    GAUGES.map((name) => [name, shown.map(({ values }) => round(values[name] ?? 0, 0))]),
  );
}

/** Allowed growth from one half to the other: a share, plus a constant for small values. */
const GROWTH_SHARE = 0.08;
const GROWTH_MORE = 8;
/** The largest share of the soak that is warm-up. */
const WARM_UP_MAX = 0.75;

/** Returns the samples after the warm-up, which lasts until retention drops as much as is stored. */
function steadyOf(samples: readonly Sample[], days: number): readonly Sample[] {
  const warmUp = Math.min(WARM_UP_MAX, (RETENTION_DAYS + 1) / days);
  return samples.slice(Math.ceil(samples.length * warmUp));
}

/** Bounds the second half of a value, after the warm-up, by the first half. */
function bounded(steady: readonly Sample[], name: string): TargetResult {
  const half = Math.floor(steady.length / 2);
  const first = mean(steady.slice(0, half), name);
  const second = mean(steady.slice(half), name);
  return atMost(`${name}, second half`, round(second, 1), round(first * (1 + GROWTH_SHARE) + GROWTH_MORE, 1));
}

/** Returns the tables that have grown most since the middle of the soak, in MiB. */
function grownTables(samples: readonly Sample[]): Record<string, number> {
  const before = samples[Math.floor(samples.length / 2)]?.tables ?? {};
  const grown = Object.entries(samples.at(-1)?.tables ?? {})
    .map(([name, bytes]) => [name, round((bytes - (before[name] ?? 0)) / MIB, 2)] as const)
    .filter(([, mib]) => mib > 0)
    .sort(([, a], [, b]) => b - a);
  return Object.fromEntries(grown.slice(0, SERIES_LENGTH));
}

/** Returns for each day how many first requests were late and how long the longest took, in seconds. */
function lateByDay(fates: readonly Fate[], perDay: number): Record<string, number[]> {
  const days = Map.groupBy(fates, ({ index }) => Math.floor(index / perDay));
  const counts = [...days].sort(([a], [b]) => a - b).map(([, those]) => countLedger(those));
  return {
    late_by_day: counts.map(({ late }) => late),
    longest_s_by_day: counts.map(({ longest_ms: longest }) => round(longest / 1_000, 1)),
  };
}

/** Ends a day of PostgreSQL and of all processes when the events that were sent so far have arrived. */
type NextDay = (sent: number) => Promise<void>;

const inWords = (values: Sample["values"]): string =>
  Object.entries(values)
    .map(([name, value]) => `${name} ${round(value, 0)}`)
    .join(", ");

/** Samples until `end` is called, which returns all samples. Logs each, so that a soak that is cut short says something. */
function takeSamples(
  { world, log }: Pick<SetScene, "world" | "log">,
  everyMs: number,
): { end(): Promise<readonly Sample[]> } {
  const began = performance.now();
  const samples: Sample[] = [];
  const over = new AbortController();
  const sampling = (async () => {
    while (!over.signal.aborted) {
      const taken = await sample(world, began);
      samples.push(taken);
      log(`soak, ${round(taken.atS / 60, 0)} min: ${inWords(taken.values)}`);
      await delay(everyMs, undefined, { signal: over.signal }).catch(() => undefined);
    }
  })();
  return {
    end: async () => {
      over.abort();
      await sampling;
      return samples;
    },
  };
}

async function soakIn(scene: SetScene, nextDay: NextDay): Promise<CaseOutcome> {
  const { quick } = scene;
  const minutes = quick ? Math.min(QUICK_MINUTES, scene.minutes) : scene.minutes;
  const events = Math.round(minutes * 60 * PER_SECOND);
  const flaky = { kind: "flaky", percent: FAILING_PERCENT, attempts: FAILURES_MAX } as const;
  const group = await healthyGroup(scene, flaky);
  const trial = await Trial.begin(scene, events);
  const sampling = takeSamples(scene, Math.max(SAMPLE_MIN_MS, (minutes * 60_000) / SAMPLES));
  try {
    const published: PublishedPart[] = [];
    const day = DAY_SECONDS[quick ? "quick" : "full"] * PER_SECOND;
    for (let from = 0; from < events; from += day) {
      const count = Math.min(day, events - from);
      const pace = { kind: "open", perSecond: PER_SECOND } as const;
      published.push(...(await trial.publish([{ from, count, group, pace }])));
      if (from + count < events) {
        await nextDay(from + count);
      }
    }
    const samples = await sampling.end();
    const days = Math.ceil(events / day);
    const steady = steadyOf(samples, days);
    const settled = await trial.settle(DRAIN);
    const fates = await trial.fates();
    const ledger = countLedger(fates);
    const slopes = Object.fromEntries(
      GAUGES.map((name) => [`${name}_per_hour`, round(perHour(steady, name), 1)]),
    );
    const values = (which: Sample | undefined): Record<string, number> =>
      Object.fromEntries(Object.entries(which?.values ?? {}).map(([name, value]) => [name, round(value, 1)]));
    return {
      ledger,
      findings: {
        minutes,
        days,
        events,
        sent_again: repeatedAnswers(published),
        ...lateByDay(fates, day),
        first: values(samples[0]),
        last: values(samples.at(-1)),
        slopes_after_warm_up: slopes,
        series: series(samples),
        tables_grown_mib: grownTables(samples),
      },
      targets: [
        ...promises(ledger.accepted, ledger.lost, events, settled),
        atMost("acknowledged twice", ledger.duplicated, 0),
        atMost("first requests later than 60 s", ledger.late, 0),
        ...BOUNDED.map((name) => bounded(steady, name)),
      ],
    };
  } finally {
    await sampling.end();
    await trial.end();
  }
}

export async function soak(scene: SetScene): Promise<CaseOutcome> {
  const settings = { SIGNET_RETENTION_DAYS: String(RETENTION_DAYS) };
  return await inShiftedWorld(scene, { seconds: 0, settings }, async ({ world, clock }) => {
    let day = 0;
    const nextDay: NextDay = async (sent) => {
      await scene.load.drain(({ ok }) => ok >= sent, NIGHT);
      day += 1;
      await clock.shiftTo(day * DAY_S);
      await until(
        async () => (await fetch(`${world.signet.apiUrl}/readyz`)).ok,
        "the api is ready",
        READY_MS,
      );
      await runUpkeep(world);
    };
    return await soakIn({ ...scene, world }, nextDay);
  });
}
