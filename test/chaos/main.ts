/** `npm run test:chaos`: injects faults in the middle of events. See docs/benchmarks.md. */
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
import { LoadGenerator } from "../bench/load/load-generator.ts";
import { describeMachine } from "../bench/report/machine.ts";
import { type ChaosCase, CASES } from "./cases.ts";
import { type CaseResult, describeResult, resultLines, verdictOf } from "./result.ts";
import { type Common, preparePlace } from "./place.ts";

const USAGE = `npm run test:chaos -- [options]

  --only NAMES        cases by name or beginning of a name, comma-separated (--list shows them)
  --quick             a fifth of the events, shorter outages
  --minutes N         duration of the soak (default 60)
  --release           fail if this machine cannot run a case
  --list              list the cases and exit
  --out FILE          where the JSON goes (default bench-results/chaos-<time>.json)
  --postgres KIND     system (Debian's packages, where installed; default) or embedded
  --no-build          use dist/ as it is
`;
const CASE_TIMEOUT_MS = 12 * 60_000;
/** The soak's nights are on top of its minutes: at most three for each five. */
const SOAK_TIMEOUT_FACTOR = 1.6;
const MINUTE_MS = 60_000;
const SOAK_MINUTES = 60;

interface ChaosOptions extends CommonOptions {
  readonly minutes: number;
  /** Whether a case that this machine cannot run fails the run. */
  readonly release: boolean;
}

function parse(args: readonly string[]): ChaosOptions {
  const { common, values } = parseCommandLine(args, {
    minutes: { type: "string" },
    release: { type: "boolean" },
  });
  const minutes = Number(values.minutes ?? SOAK_MINUTES);
  if (!(minutes > 0)) {
    throw new Error("--minutes must be a number above 0");
  }
  return { ...common, minutes, release: values.release === true };
}

/** Runs each case in its own world, so that no case affects another. */
async function runAlone(common: Common, chaos: ChaosCase, options: ChaosOptions): Promise<CaseResult> {
  const { quick, minutes } = options;
  const began = performance.now();
  const seconds = (): number => (performance.now() - began) / 1_000;
  const place = await preparePlace(common, chaos.name, chaos.setting ?? {});
  if (place === undefined) {
    return describeResult(chaos, { skipped: "cannot mount a disk on this machine" }, seconds());
  }
  try {
    const outcome = chaos.run({ ...place.scene, quick, minutes, log: common.log });
    const timeoutMs = CASE_TIMEOUT_MS + minutes * SOAK_TIMEOUT_FACTOR * MINUTE_MS;
    return describeResult(chaos, await withTimeout(outcome, chaos.name, timeoutMs), seconds());
  } finally {
    await place.close();
  }
}

async function run(chosen: readonly ChaosCase[], options: ChaosOptions): Promise<number> {
  const startedAt = new Date();
  const out = outputPath(options, startedAt, "chaos-");
  const stack = await startStack({ postgres: options.postgres, pruneIndexes: true, log });
  const load = new LoadGenerator();
  const common: Common = { stack, load, postgres: options.postgres, log };
  // The janitor ends the processes.
  stopOnSignals(async () => {});
  try {
    const results: CaseResult[] = [];
    const failures = await runEach(chosen, async (chaos) => {
      const result = await runAlone(common, chaos, options);
      results.push(result);
      resultLines(result).forEach(log);
    });
    await writeJson(out, {
      format: 2,
      started_at: startedAt.toISOString(),
      ended_at: new Date().toISOString(),
      commit: describeCommit(),
      quick: options.quick,
      machine: describeMachine(stack.directory),
      cases: results,
      failures,
    });
    const { line, passes } = verdictOf(results, Object.keys(failures).length, options.release);
    log(`${line}; written to ${out}`);
    return passes ? 0 : 1;
  } finally {
    load.stop();
    await stack.stop();
    // The janitor removes the directory and ends the remaining processes.
    stack.janitor.end();
  }
}

await runCommand({ usage: USAGE, all: () => CASES, parse, run });
