/** Saturation with 1, 2 and 4 workers and apis. On few cores only the CPU of a delivery is comparable, not the rate. */
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { saturationOf, singles } from "./saturation.ts";

const PROCESSES = [1, 2, 4];
const CONNECTIONS = 64;

/** Sums the processes of a kind: `signet_api`, `signet_api_2` … */
function sumOf(cpu: Readonly<Record<string, number>>, kind: string): number {
  const own = Object.entries(cpu).filter(([name]) => name.startsWith(kind));
  return round(
    own.reduce((total, [, value]) => total + value, 0),
    3,
  );
}

async function runScenario(bench: Bench): Promise<void> {
  const { events, warmUp } = saturationOf(bench);
  const found: Record<string, unknown> = {};
  const totals: number[] = [];
  for (const count of PROCESSES) {
    const world = await bench.world({}, `workers-${count}`, { apis: count, workers: count });
    const group = await bench.tenTenants(world);
    const { cpu_s_per_1000: cpu, ...measured } = await bench.measure(world, {
      name: `workers-${count}`,
      warmUp,
      flow: { group, events, pace: singles(CONNECTIONS) },
    });
    totals.push(cpu["total"] ?? Number.NaN);
    found[String(count)] = {
      per_second: measured.deliveries_per_second,
      cpu_s_per_1000: {
        api: sumOf(cpu, "signet_api"),
        worker: sumOf(cpu, "signet_worker"),
        temporal: cpu["temporal"],
        postgres: cpu["postgres"],
        total: cpu["total"],
      },
      each_worker: Object.entries(cpu).flatMap(([name, value]) =>
        name.startsWith("signet_worker") ? [value] : [],
      ),
    };
  }
  const [one = Number.NaN] = totals;
  const ratios = Object.fromEntries(
    PROCESSES.map((count, index) => [count, round((totals[index] ?? 0) / one, 3)]),
  );
  bench.findings["workers"] = { ...found, cpu_ratio: ratios };
}

export const workers: Scenario = {
  name: "workers",
  about: "saturation with 1, 2 and 4 workers and apis: CPU of a delivery, by kind of process",
  run: runScenario,
};
