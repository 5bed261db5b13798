/**
 * Workers while more deliveries are retried than they can cache: their memory stays within its share. No receiver ever
 * answers 200, so the ledger counts all events as lost.
 */
import { setTimeout as delay } from "node:timers/promises";
import { cachedWorkflows } from "#temporal/workers.ts";
import type { Process } from "#test/bench/environment/signet.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { countLedger } from "../ledger.ts";
import { openCarriers } from "../observe.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { Trial } from "../trial.ts";
import { residentMiB } from "./soak.ts";

/** Deliveries in retry, far more than the workers cache. */
interface Retried {
  readonly events: { readonly full: number; readonly quick: number };
  readonly perSecond: number;
}
const SAMPLE_MS = 5_000;
/** Time for which retries go on after the last event. */
const RETRIES_MS = { full: 260_000, quick: 60_000 } as const;
/** The limit of the compose file and the chart. Of it, 240 MiB are for connections to receivers (docs/operations.md). */
const LIMIT_MIB = 768;
const RESIDENT_MAX_MIB = 400;
/** Longer than the sender's timeout of 10 s. */
const HANG_MS = 10_500;
const ALWAYS = 1_000;

const SETTINGS = { SIGNET_CACHED_WORKFLOWS: String(cachedWorkflows(LIMIT_MIB * 2 ** 20)) };

interface Sample {
  readonly cached: number;
  readonly mib: number;
  readonly cpuS: number;
  readonly misses: number;
}

/** Returns the sum of a metric over its labels. */
function sumOf(metrics: string, name: string): number {
  return [...metrics.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "gm"))].reduce(
    (sum, [, value]) => sum + Number(value),
    0,
  );
}

async function sampleOf({ metricsUrl, server }: Process): Promise<Sample> {
  const response = await fetch(`${metricsUrl}/metrics`, { signal: AbortSignal.timeout(SAMPLE_MS) });
  const metrics = await response.text();
  return {
    cached: sumOf(metrics, "temporal_sticky_cache_size"),
    mib: residentMiB(server.pid),
    cpuS: sumOf(metrics, "process_cpu_seconds_total"),
    misses: sumOf(metrics, "temporal_sticky_cache_miss_total"),
  };
}

/** Returns the memory of each further workflow, in KiB, by least squares. */
function kibEach(samples: readonly Sample[]): number {
  const mean = (of: (sample: Sample) => number): number =>
    samples.reduce((sum, each) => sum + of(each), 0) / samples.length;
  const [x, y] = [mean(({ cached }) => cached), mean(({ mib }) => mib)];
  const above = samples.reduce((sum, { cached, mib }) => sum + (cached - x) * (mib - y), 0);
  return (1_024 * above) / samples.reduce((sum, { cached }) => sum + (cached - x) ** 2, 0);
}

/** A third of the receivers fails, a third hangs, a third resets connections, for all attempts. */
async function retryAll(scene: SetScene, retried: Retried): Promise<CaseOutcome> {
  const { world, load, quick } = scene;
  const events = quick ? retried.events.quick : retried.events.full;
  const group = await world.group({ name: "failing", tenants: 20, endpointsPerTenant: 3, fanOut: "one" });
  const third = (rest: number): typeof group.endpoints =>
    group.endpoints.filter((_, index) => index % 3 === rest);
  await load.behave(third(0), { kind: "fail", attempts: ALWAYS });
  await load.behave(third(1), { kind: "delay", ms: HANG_MS });
  await load.behave(third(2), { kind: "reset", attempts: ALWAYS });
  const workers = world.signet.workers.map((worker) => ({ worker, samples: [] as Sample[] }));
  const over = new AbortController();
  const sampling = (async () => {
    while (!over.signal.aborted) {
      for (const { worker, samples } of workers) {
        const sample = await sampleOf(worker).catch(() => undefined);
        samples.push(...(sample === undefined ? [] : [sample]));
      }
      await delay(SAMPLE_MS, undefined, { signal: over.signal }).catch(() => undefined);
    }
  })();
  const trial = await Trial.begin(scene, events);
  try {
    await trial.publish([
      { from: 0, count: events, group, pace: { kind: "open", perSecond: retried.perSecond } },
    ]);
    await delay(quick ? RETRIES_MS.quick : RETRIES_MS.full);
    over.abort();
    await sampling;
    const ledger = countLedger(await trial.fates());
    const measured = workers.map(({ samples }) => samples);
    const most = (of: (sample: Sample) => number): number[] =>
      measured.map((samples) => round(Math.max(...samples.map(of)), 0));
    return {
      ledger,
      findings: {
        events,
        open_workflows: await openCarriers(world),
        cached_at_most: most(({ cached }) => cached),
        kib_per_cached_workflow: measured.map((samples) => round(kibEach(samples), 0)),
        attempts: await trial.recorded(),
        cpu_s: most(({ cpuS }) => cpuS),
        cache_misses: most(({ misses }) => misses),
        mib: measured.map((samples) => [samples[0], samples.at(-1)].map((each) => round(each?.mib ?? 0, 0))),
      },
      targets: [
        atMost("events never accepted", events - ledger.accepted, 0),
        atMost("resident memory of a worker, MiB", Math.max(...most(({ mib }) => mib)), RESIDENT_MAX_MIB),
      ],
    };
  } finally {
    over.abort();
    await sampling;
    await trial.end();
  }
}

export const WORKER_MEMORY: readonly ChaosCase[] = [
  {
    name: "worker-memory",
    about: "two workers while receivers fail, hang and reset all attempts of more deliveries than they cache",
    // All but the last attempts within minutes, so that workflows reach the size that they have at the end.
    setting: { shape: { apis: 2, workers: 2 }, settings: { ...SETTINGS, SIGNET_RETRY_WINDOW_MS: "480000" } },
    run: async (scene) => await retryAll(scene, { events: { full: 1_600, quick: 600 }, perSecond: 20 }),
  },
  {
    name: "worker-memory-open",
    about: "four workers while the same happens to 10,000 deliveries with a workflow each",
    setting: {
      shape: { apis: 2, workers: 4 },
      settings: { ...SETTINGS, SIGNET_RETRY_WINDOW_MS: "7200000", SIGNET_DELIVERY_BATCH_MAX: "1" },
    },
    run: async (scene) => await retryAll(scene, { events: { full: 10_000, quick: 1_000 }, perSecond: 40 }),
  },
];
