/** How costs grow along each axis: three sizes, and the exponent of the power law through their costs. */
import { EXPONENT_MAX, exponentOf, type Point } from "#test/support/growth.ts";
import { messageOf } from "#runtime/thrown.ts";
import { withTimeout } from "#test/bench/command-line.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { Bench, Scenario } from "../bench.ts";
import { credentials, edges, revocations, workers } from "./other-axes.ts";
import { type AxisName, type Costs, type Promised, PROMISES } from "./promises.ts";
import {
  backlog,
  deadLetters,
  fanOut,
  history,
  otherEndpoints,
  payload,
  retries,
  tenants,
} from "./queue-axes.ts";

const AXIS_TIMEOUT_MS = 15 * 60_000;

interface Axis<Name extends AxisName> {
  /** Ten times apart, as far as two cores allow. */
  readonly sizes: readonly number[];
  readonly quick: readonly number[];
  /** @param before what earlier sizes have left in the axis's world */
  readonly measure: (bench: Bench, size: number, before: number) => Promise<Costs<Name>>;
}

const TENTHS = (largest: number): Pick<Axis<AxisName>, "sizes" | "quick"> => ({
  sizes: [largest / 100, largest / 10, largest],
  quick: [largest / 1_000, largest / 100, largest / 10],
});

const AXES: { readonly [Name in AxisName]: Axis<Name> } = {
  tenants: { ...TENTHS(10_000), measure: tenants },
  fan_out: { ...TENTHS(1_000), measure: fanOut },
  other_endpoints: { ...TENTHS(1_000), measure: otherEndpoints },
  // An event has at most 256 KiB.
  payload: { sizes: [2_000, 20_000, 200_000], quick: [2_000, 20_000, 200_000], measure: payload },
  history: { ...TENTHS(1_000_000), measure: history },
  backlog: { ...TENTHS(1_000_000), measure: backlog },
  dead_letters: { ...TENTHS(1_000_000), measure: deadLetters },
  retries: { ...TENTHS(100_000), measure: retries },
  credentials: { ...TENTHS(100_000), measure: credentials },
  // A thousand take no time.
  revocations: { ...TENTHS(1_000_000), quick: [10_000, 100_000], measure: revocations },
  // A hub with one follower asks less often. A hundred and the hub fill two cores.
  edges: { sizes: [10, 32, 100], quick: [4, 13, 40], measure: edges },
  // More processes than twice the cores would measure the scheduler.
  workers: { sizes: [1, 2, 4], quick: [1, 2], measure: workers },
};

/** What was found along an axis. Snake case, because it is public JSON. */
interface Finding {
  readonly of: string;
  readonly sizes: readonly number[];
  readonly costs: Readonly<Record<string, readonly number[]>>;
  readonly exponents: Readonly<Record<string, number>>;
}

function chosenAxes(wanted: readonly string[]): AxisName[] {
  const all = Object.keys(AXES) as AxisName[];
  const unknown = wanted.filter((name) => !all.some((each) => each === name));
  if (unknown.length > 0) {
    throw new Error(`--axes ${unknown.join(", ")}: the axes are ${all.join(", ")}`);
  }
  return wanted.length === 0 ? all : all.filter((name) => wanted.includes(name));
}

async function measureAxis(bench: Bench, name: AxisName): Promise<Finding> {
  const { measure, ...axis } = AXES[name];
  const sizes = bench.quick ? axis.quick : axis.sizes;
  const found: Record<string, number>[] = [];
  let before = 0;
  for (const size of sizes) {
    const costs: Readonly<Record<string, number>> = await measure(bench, size, before);
    found.push(Object.fromEntries(Object.entries(costs).map(([cost, value]) => [cost, round(value, 3)])));
    bench.log(`${name} ${size}: ${JSON.stringify(found.at(-1))}`);
    before = size;
  }
  const { of, costs }: Promised = PROMISES[name];
  const values = (cost: string): number[] => found.map((each) => each[cost] ?? Number.NaN);
  const exponent = (cost: string): number =>
    exponentOf(sizes.map((size, index): Point => [size, values(cost)[index] ?? Number.NaN]));
  const named = Object.keys(costs);
  return {
    of,
    sizes,
    costs: Object.fromEntries(named.map((cost) => [cost, values(cost)])),
    exponents: Object.fromEntries(named.map((cost) => [cost, round(exponent(cost), 2)])),
  };
}

/** Returns the costs that grow faster than they promise. */
function broken(name: AxisName, { exponents }: Finding): string[] {
  const { costs }: Promised = PROMISES[name];
  return Object.entries(costs).flatMap(([cost, growth]) =>
    (exponents[cost] ?? Number.NaN) <= EXPONENT_MAX[growth]
      ? []
      : [`${name}, ${cost}: ${exponents[cost]} (${growth})`],
  );
}

async function runScenario(bench: Bench): Promise<void> {
  const findings: Record<string, Finding> = {};
  bench.findings["growth"] = findings;
  const problems: string[] = [];
  for (const name of chosenAxes(bench.axes)) {
    try {
      const finding = await withTimeout(measureAxis(bench, name), name, AXIS_TIMEOUT_MS);
      findings[name] = finding;
      problems.push(...broken(name, finding));
    } catch (error) {
      problems.push(`${name}: ${messageOf(error)}`);
    }
  }
  if (problems.length > 0) {
    throw new Error(`does not grow as promised: ${problems.join("; ")}`);
  }
}

export const growth: Scenario = {
  name: "growth",
  about: "costs along each axis (--axes) at three sizes, ten times apart, and how they grow",
  timeoutMs: Object.keys(AXES).length * AXIS_TIMEOUT_MS,
  run: runScenario,
};
