/** An hour at a steady rate with three in ten attempts failing. Checks that nothing grows without bound. */
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { withClient } from "../../bench/environment/postgres.ts";
import { pssMiB } from "../../bench/measure/process-tree.ts";
import { round } from "../../bench/report/measurement.ts";
import type { World } from "../../bench/environment/world.ts";
import type { SetScene } from "../cases.ts";
import { countLedger } from "../ledger.ts";
import type { TargetResult } from "../../bench/report/targets.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { promises } from "../run-case.ts";
import { healthyGroup, type PublishedPart, repeatedAnswers } from "../traffic.ts";
import { Trial } from "../trial.ts";

const PER_SECOND = 30;
const FAILING_PERCENT = 30;
/** An event succeeds after this many failures, because the test measures growth and not the schedule's last hours. */
const FAILURES_MAX = 3;
const QUICK_MINUTES = 2;
/** Access tokens live for 15 minutes. */
const SEGMENT_SECONDS = 300;
const SAMPLES = 60;
const SAMPLE_MIN_MS = 2_000;
const DRAIN = { idleMs: 120_000, maxMs: 300_000 };
const HOUR_S = 3_600;

interface Sample {
  readonly atS: number;
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

async function databaseSizes(world: World): Promise<{ table: number; index: number; deliveries: number }> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ table: string; index: string; deliveries: string }>(
      `SELECT sum(pg_table_size(c.oid)) AS table, sum(pg_indexes_size(c.oid)) AS index,
         (SELECT count(*) FROM deliveries) AS deliveries
       FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')`,
    );
    const [row] = rows;
    return {
      table: Number(row?.table ?? 0),
      index: Number(row?.index ?? 0),
      deliveries: Number(row?.deliveries ?? 0),
    };
  });
}

async function sample(world: World, beganMs: number): Promise<Sample> {
  const pids = world.signet.pids;
  const sizes = await databaseSizes(world);
  const { temporal = 0, postgres = 0 } = pssMiB(world.roots.system);
  return {
    atS: (performance.now() - beganMs) / 1_000,
    values: {
      api_mib: residentMiB(pids.signet_api),
      worker_mib: residentMiB(pids.signet_worker),
      temporal_mib: temporal,
      postgres_mib: postgres,
      api_descriptors: descriptors(pids.signet_api),
      worker_descriptors: descriptors(pids.signet_worker),
      table_bytes: sizes.table,
      index_bytes: sizes.index,
      deliveries: sizes.deliveries,
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

/** Returns the bytes that each delivery between two samples has added. */
function bytesEach(from: Sample | undefined, to: Sample | undefined, name: string): number {
  const grown = (key: string): number => (to?.values[key] ?? 0) - (from?.values[key] ?? 0);
  return round(grown(name) / grown("deliveries"), 0);
}

const GAUGES = ["api_mib", "worker_mib", "api_descriptors", "worker_descriptors"] as const;
const MEMORY_AND_DESCRIPTORS = [...GAUGES, "temporal_mib", "postgres_mib"];
/** Values that are reported for each gauge, at equal distances. */
const SERIES_LENGTH = 12;

function series(samples: readonly Sample[]): Record<string, number[]> {
  const step = Math.max(1, Math.floor(samples.length / SERIES_LENGTH));
  const shown = samples.filter((_, index) => index % step === 0);
  return Object.fromEntries(
    MEMORY_AND_DESCRIPTORS.map((name) => [name, shown.map(({ values }) => round(values[name] ?? 0, 0))]),
  );
}

/** Allowed growth from the second quarter to the last: a share, plus a constant for small values. */
const GROWTH_SHARE = 0.15;
const GROWTH_MORE = 16;

/** Bounds the last quarter of a value by its second one; the first is warm-up. */
function bounded(samples: readonly Sample[], name: string): TargetResult {
  const quarter = Math.floor(samples.length / 4);
  const second = mean(samples.slice(quarter, 2 * quarter), name);
  const last = mean(samples.slice(-quarter), name);
  return atMost(`${name}, last quarter`, round(last, 1), round(second * (1 + GROWTH_SHARE) + GROWTH_MORE, 1));
}

function sizes(samples: readonly Sample[]): { findings: Record<string, unknown>; targets: TargetResult[] } {
  const half = samples[Math.floor(samples.length / 2)];
  const parts = ["table_bytes", "index_bytes"].map((name) => {
    const [first, second] = [bytesEach(samples[0], half, name), bytesEach(half, samples.at(-1), name)];
    return {
      finding: [`${name}_per_delivery`, [first, second]] as const,
      target: atMost(`${name} per delivery, second half`, second, round(first * 1.25, 0)),
    };
  });
  return {
    findings: Object.fromEntries(parts.map(({ finding }) => finding)),
    targets: parts.map(({ target }) => target),
  };
}

export async function soak(scene: SetScene): Promise<CaseOutcome> {
  const { world, quick } = scene;
  const minutes = quick ? Math.min(QUICK_MINUTES, scene.minutes) : scene.minutes;
  const events = Math.round(minutes * 60 * PER_SECOND);
  const group = await healthyGroup(scene, {
    kind: "flaky",
    percent: FAILING_PERCENT,
    attempts: FAILURES_MAX,
  });
  const trial = await Trial.begin(scene, events);
  const began = performance.now();
  const samples: Sample[] = [];
  const over = new AbortController();
  const everyMs = Math.max(SAMPLE_MIN_MS, (minutes * 60_000) / SAMPLES);
  const sampling = (async () => {
    while (!over.signal.aborted) {
      samples.push(await sample(world, began));
      await delay(everyMs, undefined, { signal: over.signal }).catch(() => undefined);
    }
  })();
  try {
    const published: PublishedPart[] = [];
    const segment = SEGMENT_SECONDS * PER_SECOND;
    for (let from = 0; from < events; from += segment) {
      const count = Math.min(segment, events - from);
      const pace = { kind: "open", perSecond: PER_SECOND } as const;
      published.push(...(await trial.publish([{ from, count, group, pace }])));
    }
    over.abort();
    await sampling;
    const settled = await trial.settle(DRAIN);
    const ledger = countLedger(await trial.fates());
    const slopes = Object.fromEntries(
      MEMORY_AND_DESCRIPTORS.map((name) => [
        `${name}_per_hour`,
        round(perHour(samples.slice(Math.floor(samples.length / 2)), name), 1),
      ]),
    );
    const database = sizes(samples);
    const values = (which: Sample | undefined): Record<string, number> =>
      Object.fromEntries(Object.entries(which?.values ?? {}).map(([name, value]) => [name, round(value, 1)]));
    return {
      ledger,
      findings: {
        minutes,
        events,
        sent_again: repeatedAnswers(published),
        first: values(samples[0]),
        last: values(samples.at(-1)),
        slopes_of_second_half: slopes,
        series: series(samples),
        ...database.findings,
      },
      targets: [
        ...promises(ledger.accepted, ledger.lost, events, settled),
        atMost("acknowledged twice", ledger.duplicated, 0),
        ...GAUGES.map((name) => bounded(samples, name)),
        ...database.targets,
      ],
    };
  } finally {
    over.abort();
    await sampling;
    await trial.end();
  }
}
