/**
 * `npm run test:flaky`: runs test files again and again on a bad machine, and counts the failures of each test. Other
 * processes keep the machine busy, and all processes of the tests stop for seconds at a time.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startBusy } from "../bench/environment/busy.ts";
import { Janitor } from "../bench/environment/janitor.ts";
import { type Failure, firstLine, readReport, type Report } from "../ci/verdict.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { ProcessTree } from "./processes.ts";
import { linesOf, tableOf } from "./table.ts";

const USAGE = `npm run test:flaky -- [files] [options]

  --runs N      how often (default 20)
  --seed N      of the first run's pauses and properties; the next run has the next seed (default 1)
  --load N      busy processes beside the tests (default 8)
  --no-pauses   the tests' processes are never stopped
  --shard I/N   a part of the files
  --json FILE   writes the table as JSON, too

Without files, it runs all but those of test/unit, whose failures never depend on the machine.
`;
const ROOT = join(import.meta.dirname, "..", "..");
/** Between two pauses, and their lengths: uniform in these ranges, in milliseconds. */
const BETWEEN_MS = [5_000, 20_000] as const;
const PAUSE_MS = [1_000, 4_000] as const;
/** How often new processes are looked for. */
const LOOK_MS = 250;
/** Longest run, in milliseconds. */
const RUN_MAX_MS = 3 * 3_600_000;

interface Options {
  readonly tests: readonly string[];
  readonly runs: number;
  readonly seed: number;
  readonly load: number;
  readonly pauses: boolean;
  readonly json: string | undefined;
}

function numberOf(name: string, text: string, least: number): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < least) {
    throw new Error(`--${name} must be an integer of at least ${least}`);
  }
  return number;
}

/** @throws Error if an argument is invalid */
function parse(args: string[]): Options {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    allowNegative: true,
    options: {
      runs: { type: "string", default: "20" },
      seed: { type: "string", default: "1" },
      load: { type: "string", default: "8" },
      pauses: { type: "boolean", default: true },
      shard: { type: "string" },
      json: { type: "string" },
    },
  });
  const { runs, seed, load, pauses, shard, json } = values;
  const chosen = positionals.length > 0 ? positionals : ["--project", "!unit"];
  return {
    tests: [...chosen, ...(shard === undefined ? [] : [`--shard=${shard}`])],
    runs: numberOf("runs", runs, 1),
    seed: numberOf("seed", seed, 0),
    load: numberOf("load", load, 0),
    pauses,
    json,
  };
}

/** Stops all processes of the tree at seeded moments, until the signal. */
async function pauseAgainAndAgain(
  tree: ProcessTree,
  random: () => number,
  ended: AbortSignal,
): Promise<void> {
  const draw = ([from, to]: readonly [number, number]): number => from + random() * (to - from);
  const wait = async (ms: number): Promise<void> => {
    await delay(ms, undefined, { signal: ended }).catch(() => undefined);
  };
  while (!ended.aborted) {
    const until = performance.now() + draw(BETWEEN_MS);
    while (!ended.aborted && performance.now() < until) {
      await wait(LOOK_MS);
      tree.look();
    }
    tree.stop();
    await wait(draw(PAUSE_MS));
    tree.goOn();
  }
}

/** Runs the tests once, and returns their failures. */
async function runOnce(options: Options, seed: number, path: string): Promise<readonly Failure[]> {
  const reporters = ["--reporter=dot", "--reporter=json", `--outputFile.json=${path}`];
  rmSync(path, { force: true });
  const child = spawn(
    process.execPath,
    [join("src", "bootstrap.mjs"), "test:all", ...options.tests, ...reporters],
    {
      cwd: ROOT,
      env: { ...process.env, SIGNET_TEST_SEED: String(seed) },
      stdio: "ignore",
      timeout: RUN_MAX_MS,
      killSignal: "SIGINT",
    },
  );
  const tree = new ProcessTree(child.pid ?? 0);
  const leave = (): void => tree.goOn();
  process.once("exit", leave);
  const ended = new AbortController();
  const closed = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject).once("close", resolve);
  }).finally(() => ended.abort());
  await Promise.all([
    closed,
    options.pauses ? pauseAgainAndAgain(tree, seededRandom(seed), ended.signal) : undefined,
  ]);
  process.off("exit", leave);
  const code = await closed;
  const failures = existsSync(path)
    ? readReport(JSON.parse(readFileSync(path, "utf8")) as Report, ROOT).failures
    : [];
  return code === 0 || failures.length > 0
    ? failures
    : [{ file: "(no file)", test: "(the run)", message: `exit code ${code}` }];
}

async function main(): Promise<number> {
  let options: Options;
  try {
    options = parse(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return 2;
  }
  const directory = mkdtempSync(join(tmpdir(), "signet-flaky-"));
  const janitor = new Janitor();
  janitor.remove(directory);
  startBusy(options.load, janitor);
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(name, () => process.exit(130));
  }
  const runs: (readonly Failure[])[] = [];
  try {
    for (let run = 0; run < options.runs; run += 1) {
      const seed = options.seed + run;
      const began = performance.now();
      const failures = await runOnce(options, seed, join(directory, "report.json"));
      runs.push(failures);
      const seconds = Math.round((performance.now() - began) / 1_000);
      console.log(`run ${run + 1}, seed ${seed}: ${failures.length} failures in ${seconds} s`);
      failures.forEach(({ file, test, message }) =>
        console.log(`  ${file} › ${test}: ${firstLine(message)}`),
      );
    }
  } finally {
    janitor.end();
  }
  const rows = tableOf(runs);
  if (options.json !== undefined) {
    writeFileSync(
      options.json,
      `${JSON.stringify({ runs: runs.length, seed: options.seed, rows }, undefined, 2)}\n`,
    );
  }
  linesOf(rows, runs.length).forEach((line) => console.log(line));
  console.log(`${rows.length} tests failed in ${runs.length} runs`);
  return rows.some(({ runs: failed }) => failed.length > 1) ? 1 : 0;
}

process.exitCode = await main();
