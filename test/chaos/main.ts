/** `npm run test:chaos`: kills and stops the service's processes in the middle of events. docs/benchmarks.md says how. */
import {
  type CommonOptions,
  describeCommit,
  log,
  outputPath,
  parseCommandLine,
  runCommand,
  runEach,
  stopOnSignals,
  withTimeout,
  writeJson,
} from "../bench/command-line.ts";
import { startStack } from "../bench/environment/stack.ts";
import { World } from "../bench/environment/world.ts";
import { LoadGenerator } from "../bench/load/load-generator.ts";
import { describeMachine } from "../bench/report/machine.ts";
import { type ChaosCase, CASES } from "./cases.ts";
import { type CaseResult, resultLine } from "./result.ts";
import { runCase, type Scene } from "./run-case.ts";
import { FULL, QUICK } from "./traffic.ts";

const USAGE = `npm run test:chaos -- [options]

  --only NAMES        cases by name or beginning of a name, comma-separated (--list shows them)
  --quick             a fifth of the events, and stops of 6 s instead of 15 s
  --list              names the cases and ends
  --out FILE          where the JSON goes (default bench-results/chaos-<time>.json)
  --postgres KIND     system (Debian's packages, where installed; default) or embedded
  --no-build          takes dist/ as it is
`;
const CASE_TIMEOUT_MS = 8 * 60_000;

/** A world of its own for each case: what one leaves behind is no other's. */
async function runAlone(
  scene: Omit<Scene, "world">,
  chaos: ChaosCase,
  { quick }: CommonOptions,
): Promise<CaseResult> {
  const { stack, load } = scene;
  const world = await World.create({ name: chaos.name, stack, load, raised: {}, profiles: undefined });
  try {
    await world.run({});
    const result = runCase({ ...scene, world }, chaos, quick ? QUICK : FULL);
    return await withTimeout(result, chaos.name, CASE_TIMEOUT_MS);
  } finally {
    await world.drop();
  }
}

async function run(chosen: readonly ChaosCase[], options: CommonOptions): Promise<number> {
  const startedAt = new Date();
  const out = outputPath(options, startedAt, "chaos-");
  const stack = await startStack({ postgres: options.postgres, pruneIndexes: true, log });
  const load = new LoadGenerator();
  // The janitor ends what runs.
  stopOnSignals(async () => {});
  try {
    const results: CaseResult[] = [];
    const failures = await runEach(chosen, async (chaos) => {
      const result = await runAlone({ stack, load }, chaos, options);
      results.push(result);
      log(resultLine(result));
    });
    await writeJson(out, {
      format: 1,
      started_at: startedAt.toISOString(),
      ended_at: new Date().toISOString(),
      commit: describeCommit(),
      quick: options.quick,
      machine: describeMachine(stack.directory),
      cases: results,
      failures,
    });
    const broken = results.filter(({ problems }) => problems.length > 0).length;
    const failed = Object.keys(failures).length;
    log(`${results.length - broken} of ${results.length + failed} cases held; written to ${out}`);
    return broken + failed > 0 ? 1 : 0;
  } finally {
    load.stop();
    await stack.stop();
    // The directory goes with the janitor, and so does what could not be stopped.
    stack.janitor.end();
  }
}

await runCommand({ usage: USAGE, all: CASES, parse: (args) => parseCommandLine(args, {}).common, run });
