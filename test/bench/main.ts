/** `npm run bench`: measures the service over its public API on real PostgreSQL and Temporal. docs/benchmarks.md says how. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DIST } from "./environment/signet.ts";
import { startStack } from "./environment/stack.ts";
import { LoadGenerator } from "./load/load-generator.ts";
import { type BenchOptions, parseOptions, USAGE } from "./options.ts";
import { writeProfiles } from "./report/profiles.ts";
import { writeReport } from "./report/report.ts";
import { Bench } from "./scenarios/bench.ts";
import { chooseScenarios, SCENARIOS } from "./scenarios/index.ts";

const ROOT = join(import.meta.dirname, "..", "..");
/** No scenario may take longer: something hangs. */
const SCENARIO_TIMEOUT_MS = 20 * 60_000;

function log(line: string): void {
  process.stdout.write(`${line}\n`);
}

function build(): void {
  log("building dist/");
  const { status } = spawnSync("npm", ["run", "--silent", "build"], { cwd: ROOT, stdio: "inherit" });
  if (status !== 0) {
    throw new Error("npm run build failed");
  }
}

async function withTimeout(work: Promise<void>, name: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${name} took longer than it may`)), SCENARIO_TIMEOUT_MS);
  });
  await Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}

/** Runs the scenarios one after the other; one that fails does not keep the others from running. */
async function runScenarios(bench: Bench, options: BenchOptions): Promise<Record<string, string>> {
  const failures: Record<string, string> = {};
  for (const scenario of chooseScenarios(options.only)) {
    log(`\n${scenario.name}: ${scenario.about}`);
    try {
      await withTimeout(scenario.run(bench), scenario.name);
    } catch (error) {
      failures[scenario.name] = error instanceof Error ? error.message : String(error);
      log(`${scenario.name} failed: ${error instanceof Error ? (error.stack ?? "") : String(error)}`);
    }
  }
  return failures;
}

async function main(options: BenchOptions): Promise<number> {
  if (options.build || !existsSync(join(DIST, "src", "main.js"))) {
    build();
  }
  const startedAt = new Date();
  const out =
    options.out ?? join(ROOT, "bench-results", `${startedAt.toISOString().replaceAll(":", "-")}.json`);
  const stack = await startStack({ postgres: options.postgres, pruneIndexes: options.pruneIndexes, log });
  const load = new LoadGenerator();
  const profiles = options.profile ? `${out}.profiles` : undefined;
  const bench = new Bench({ stack, load, quick: options.quick, raised: options.set, profiles, log });
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    closing ??= (async () => {
      await bench.stop();
      load.stop();
      await stack.stop();
    })();
    await closing;
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      log("\nstopping");
      void close().finally(() => process.exit(130));
    });
  }
  try {
    const failures = await runScenarios(bench, options);
    await writeReport({ bench, options, failures, startedAt, out });
    if (profiles !== undefined) {
      // A process writes its profile when it ends.
      await bench.stop();
      await writeProfiles(bench, profiles);
    }
    return Object.keys(failures).length > 0 || bench.measurements.some(({ lost }) => lost > 0) ? 1 : 0;
  } finally {
    await bench.drop().catch((error: unknown) => log(`databases could not be dropped: ${String(error)}`));
    await close();
    // The directory goes with the janitor, and so does what could not be stopped.
    stack.janitor.end();
  }
}

function list(): number {
  for (const { name, about } of SCENARIOS) {
    log(`${name.padEnd(22)}${about}`);
  }
  return 0;
}

/** Undefined when the arguments are wrong. */
function readOptions(): BenchOptions | undefined {
  try {
    const options = parseOptions(process.argv.slice(2));
    chooseScenarios(options.only);
    return options;
  } catch (error) {
    log(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return undefined;
  }
}

const options = readOptions();
if (options === undefined) {
  process.exit(2);
}
// Pipes of children that have ended would keep the process alive.
process.exit(options.list ? list() : await main(options));
