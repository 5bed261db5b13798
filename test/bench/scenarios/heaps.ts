/** Saturation and a steady rate with several heaps of Node.js, in alternation: CPU, collections and memory. */
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { saturationOf, singles } from "./saturation.ts";

/** Old space and semi-space, in MiB. The first is the image's. */
const HEAPS = [
  [256, 16],
  [256, 32],
  [512, 16],
  [512, 32],
  [512, 64],
] as const;
const ROUNDS = 2;
const CONNECTIONS = 64;
const STEADY_PER_SECOND = 200;
const STEADY_SECONDS = 10;

async function measureHeap(
  bench: Bench,
  [old, semi]: (typeof HEAPS)[number],
  turn: number,
): Promise<Record<string, number>> {
  const name = `heaps-${old}-${semi}-${turn}`;
  const node = [`--max-old-space-size=${old}`, `--max-semi-space-size=${semi}`];
  const world = await bench.world({}, name, { api: { node }, worker: { node } });
  const group = await bench.tenTenants(world);
  const { events, warmUp } = saturationOf(bench);
  const full = await bench.measure(world, {
    name,
    warmUp,
    flow: { group, events, pace: singles(CONNECTIONS) },
  });
  const steady = await bench.measure(world, {
    name: `${name}-open-${STEADY_PER_SECOND}`,
    warmUp: 0,
    flow: {
      group,
      events: STEADY_PER_SECOND * bench.seconds(STEADY_SECONDS),
      pace: { kind: "open", perSecond: STEADY_PER_SECOND },
    },
  });
  await world.stop();
  return {
    per_second: full.deliveries_per_second,
    cpu_s_per_1000: full.cpu_s_per_1000["total"] ?? Number.NaN,
    worker_cpu_s_per_1000: full.cpu_s_per_1000["signet_worker"] ?? Number.NaN,
    peak_mib: full.signet_pss_peak_mib,
    steady_cpu_s_per_1000: steady.cpu_s_per_1000["total"] ?? Number.NaN,
    steady_p50_ms: steady.latency_ms.p50,
    steady_p99_ms: steady.latency_ms.p99,
  };
}

function mean(turns: readonly Record<string, number>[]): Record<string, number> {
  const [first = {}] = turns;
  return Object.fromEntries(
    Object.keys(first).map((figure) => [
      figure,
      round(turns.reduce((sum, turn) => sum + (turn[figure] ?? Number.NaN), 0) / turns.length, 2),
    ]),
  );
}

async function runScenario(bench: Bench): Promise<void> {
  const found = new Map<string, Record<string, number>[]>(HEAPS.map((heap) => [heap.join("/"), []]));
  for (let turn = 1; turn <= (bench.quick ? 1 : ROUNDS); turn += 1) {
    for (const heap of HEAPS) {
      found.get(heap.join("/"))?.push(await measureHeap(bench, heap, turn));
    }
  }
  bench.findings["heaps"] = Object.fromEntries([...found].map(([heap, turns]) => [heap, mean(turns)]));
  bench.log(`heaps: ${JSON.stringify(bench.findings["heaps"])}`);
}

export const heaps: Scenario = {
  name: "heaps",
  about: "saturation and 200/s with five sizes of Node's heap, in alternation",
  run: runScenario,
};
