/** `npm run test:chaos`: kills and stops the service's processes in the middle of events. docs/benchmarks.md says how. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DIST } from "../bench/environment/signet.ts";
import { startStack } from "../bench/environment/stack.ts";
import { World } from "../bench/environment/world.ts";
import { LoadGenerator } from "../bench/load/load-generator.ts";
import { describeMachine } from "../bench/report/machine.ts";
import { type ChaosCase, CASES, chooseCases } from "./cases.ts";
import { type ChaosOptions, parseOptions, USAGE } from "./options.ts";
import { type CaseResult, resultLine } from "./result.ts";
import { runCase, type Scene } from "./run-case.ts";
import { FULL, QUICK, type Size } from "./traffic.ts";

const ROOT = join(import.meta.dirname, "..", "..");
/** No case may take longer: something hangs. */
const CASE_TIMEOUT_MS = 8 * 60_000;

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

async function withTimeout<T>(work: Promise<T>, name: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${name} took longer than it may`)), CASE_TIMEOUT_MS);
  });
  return await Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}

/** A world of its own for each case: what one leaves behind is no other's. */
async function runAlone(scene: Omit<Scene, "world">, chaos: ChaosCase, size: Size): Promise<CaseResult> {
  const { stack, load } = scene;
  const world = await World.create({ name: chaos.name, stack, load, raised: {}, profiles: undefined });
  try {
    await world.run({});
    return await withTimeout(runCase({ ...scene, world }, chaos, size), chaos.name);
  } finally {
    await world.drop();
  }
}

interface Outcome {
  readonly results: CaseResult[];
  readonly failures: Record<string, string>;
}

/** Runs the cases one after the other; one that fails does not keep the others from running. */
async function runCases(scene: Omit<Scene, "world">, options: ChaosOptions): Promise<Outcome> {
  const results: CaseResult[] = [];
  const failures: Record<string, string> = {};
  for (const chaos of chooseCases(options.only)) {
    try {
      const result = await runAlone(scene, chaos, options.quick ? QUICK : FULL);
      results.push(result);
      log(resultLine(result));
    } catch (error) {
      failures[chaos.name] = error instanceof Error ? error.message : String(error);
      log(`${chaos.name} failed: ${error instanceof Error ? (error.stack ?? "") : String(error)}`);
    }
  }
  return { results, failures };
}

async function main(options: ChaosOptions): Promise<number> {
  if (options.build || !existsSync(join(DIST, "src", "main.js"))) {
    build();
  }
  const startedAt = new Date().toISOString();
  const out = options.out ?? join(ROOT, "bench-results", `chaos-${startedAt.replaceAll(":", "-")}.json`);
  const stack = await startStack({ postgres: options.postgres, pruneIndexes: true, log });
  const load = new LoadGenerator();
  const stop = async (): Promise<void> => {
    load.stop();
    await stack.stop();
    // The directory goes with the janitor, and so does what could not be stopped.
    stack.janitor.end();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      log("\nstopping");
      // The janitor ends what runs.
      process.exit(130);
    });
  }
  try {
    const { results, failures } = await runCases({ stack, load, log }, options);
    const report = {
      format: 1,
      started_at: startedAt,
      ended_at: new Date().toISOString(),
      commit: spawnSync("git", ["describe", "--always", "--dirty"], { encoding: "utf8" }).stdout.trim(),
      quick: options.quick,
      machine: describeMachine(stack.directory),
      cases: results,
      failures,
    };
    await mkdir(dirname(out), { recursive: true });
    await writeFile(out, `${JSON.stringify(report, undefined, 2)}\n`);
    const broken = results.filter(({ problems }) => problems.length > 0).length;
    log(
      `${results.length - broken} of ${results.length + Object.keys(failures).length} cases held; written to ${out}`,
    );
    return broken + Object.keys(failures).length > 0 ? 1 : 0;
  } finally {
    await stop();
  }
}

/** Undefined when the arguments are wrong. */
function readOptions(): ChaosOptions | undefined {
  try {
    const options = parseOptions(process.argv.slice(2));
    chooseCases(options.only);
    return options;
  } catch (error) {
    log(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return undefined;
  }
}

function list(): number {
  for (const { name, about } of CASES) {
    log(`${name.padEnd(26)}${about}`);
  }
  return 0;
}

const options = readOptions();
if (options === undefined) {
  process.exit(2);
}
// Pipes of children that have ended would keep the process alive.
process.exit(options.list ? list() : await main(options));
