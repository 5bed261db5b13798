/** `npm run bench`: measures the service over its public API on real PostgreSQL and Temporal. See docs/benchmarks.md. */
import {
  log,
  type Named,
  outputPath,
  runCommand,
  runEach,
  stopOnSignals,
  withTimeout,
} from "./command-line.ts";
import { startBusy } from "./environment/busy.ts";
import { startStack } from "./environment/stack.ts";
import { LoadGenerator } from "./load/load-generator.ts";
import { type BenchOptions, parseOptions, USAGE } from "./options.ts";
import { writeProfiles } from "./report/profiles.ts";
import { writeReport } from "./report/report.ts";
import { COMPARED, comparison } from "./scenarios/against.ts";
import { Bench, type Scenario } from "./scenarios/bench.ts";
import { SCENARIOS } from "./scenarios/index.ts";

const SCENARIO_TIMEOUT_MS = 20 * 60_000;

/** Returns the chosen scenarios, or the one that compares by the chosen loads. */
function scenariosOf(chosen: readonly Named[], { against }: BenchOptions): readonly Scenario[] {
  const isChosen = (each: Named): boolean => chosen.includes(each);
  return against === undefined
    ? SCENARIOS.filter(isChosen)
    : [comparison(against, COMPARED.filter(isChosen))];
}

async function run(chosen: readonly Named[], options: BenchOptions): Promise<number> {
  const startedAt = new Date();
  const out = outputPath(options, startedAt);
  const stack = await startStack({ postgres: options.postgres, pruneIndexes: options.pruneIndexes, log });
  const load = new LoadGenerator();
  const profiles = options.profile ? `${out}.profiles` : undefined;
  const { quick, set: raised, together, rounds, peers, borders, axes } = options;
  const busy = startBusy(options.busy, stack.janitor);
  const bench = new Bench({
    stack,
    load,
    quick,
    raised,
    profiles,
    together,
    rounds,
    peers,
    borders,
    axes,
    busy,
    log,
  });
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    closing ??= (async () => {
      await bench.stop();
      load.stop();
      await stack.stop();
    })();
    await closing;
  };
  stopOnSignals(close);
  try {
    const failures = await runEach(scenariosOf(chosen, options), async (scenario) => {
      log(`\n${scenario.name}: ${scenario.about}`);
      await withTimeout(scenario.run(bench), scenario.name, scenario.timeoutMs ?? SCENARIO_TIMEOUT_MS);
    });
    await writeReport({ bench, options, failures, startedAt, out });
    if (profiles !== undefined) {
      // Processes write their profiles when they end.
      await bench.stop();
      await writeProfiles(bench, profiles);
    }
    return Object.keys(failures).length > 0 || bench.measurements.some(({ lost }) => lost > 0) ? 1 : 0;
  } finally {
    await bench.drop().catch((error: unknown) => log(`could not drop the databases: ${String(error)}`));
    await close();
    // The janitor removes the directory and ends the remaining processes.
    stack.janitor.end();
  }
}

await runCommand<Named, BenchOptions>({
  usage: USAGE,
  all: ({ against }) => (against === undefined ? SCENARIOS : COMPARED),
  parse: parseOptions,
  run,
});
