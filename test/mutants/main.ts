/**
 * `npm run test:mutants`: makes deliberate faults in a copy of the tree, one at a time, and reports those that
 * `npm test` does not notice.
 */
import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Copy, copyTree } from "./copy.ts";
import { type Mutant, withFault } from "./mutant.ts";
import { MUTANTS } from "./mutants.ts";
import { type RunResult, Runs } from "./runs.ts";

const USAGE = `npm run test:mutants -- [options]

  --only NAMES   mutants by name, comma-separated
  --shard I/N    every Nth mutant, from the Ith, for several machines
  --all          runs everything (npm run test:all) for mutants that npm test does not notice
  --json FILE    writes the table as JSON, too
  --list         lists the mutants and exits
`;
/** The test files that `npm test` runs. */
const IN_NPM_TEST = /^test\/(?:unit|machine|promises)\//;

interface Options {
  readonly chosen: readonly Mutant[];
  readonly all: boolean;
  readonly json: string | undefined;
  readonly list: boolean;
}

/** What noticed a mutant. An invalid one does not compile, or keeps tests from running, and measures nothing. */
type Verdict = "npm test" | "npm run test:all" | "survives" | "invalid";

/** One line of the table. */
interface Row {
  readonly name: string;
  readonly breaks: string;
  readonly verdict: Verdict;
  /** The first failed test. */
  readonly file: string | null;
  readonly test: string | null;
  /** Why it is invalid. */
  readonly message: string | null;
  readonly seconds: number;
}

type Finding = Pick<Row, "verdict" | "file" | "test" | "message">;

function log(line: string): void {
  process.stdout.write(`${line}\n`);
}

function shardOf(mutants: readonly Mutant[], shard: string): readonly Mutant[] {
  const [part = 0, parts = 0] = (/^(\d+)\/(\d+)$/.exec(shard) ?? []).slice(1).map(Number);
  if (part < 1 || part > parts) {
    throw new Error("--shard must be I/N, with I from 1 to N");
  }
  return mutants.filter((_, index) => index % parts === part - 1);
}

/** @throws Error if an argument is invalid */
function parse(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string" },
      shard: { type: "string", default: "1/1" },
      all: { type: "boolean", default: false },
      json: { type: "string" },
      list: { type: "boolean", default: false },
    },
  });
  const { only, shard, all, json, list } = values;
  const names = only?.split(",") ?? MUTANTS.map(({ name }) => name);
  const unknown = names.filter((name) => !MUTANTS.some((mutant) => mutant.name === name));
  if (unknown.length > 0) {
    throw new Error(`no mutant is called ${unknown.join(", ")}; --list shows the names`);
  }
  const chosen = MUTANTS.filter(({ name }) => names.includes(name));
  return { chosen: shardOf(chosen, shard), all, json, list };
}

/** @throws Error if tests fail without a fault, because they would fail with each */
function requireGreen(result: RunResult, what: string): void {
  if (result.kind !== "green") {
    const why = result.kind === "failed" ? `${result.file}: ${result.test}` : result.message;
    throw new Error(`${what} must pass without a fault, and does not:\n${why}`);
  }
}

function finding(verdict: Verdict, result?: RunResult): Finding {
  const failed = result?.kind === "failed" ? result : undefined;
  const message = result?.kind === "broken" ? result.message : null;
  return { verdict, file: failed?.file ?? null, test: failed?.test ?? null, message };
}

class Measurement {
  readonly #copy: Copy;
  readonly #runs: Runs;
  readonly #commands: readonly ("test" | "test:all")[];
  /** Commands that have passed without a fault. */
  readonly #green = new Set<string>();

  constructor(copy: Copy, runs: Runs, all: boolean) {
    this.#copy = copy;
    this.#runs = runs;
    this.#commands = all ? ["test", "test:all"] : ["test"];
  }

  /** @throws Error if the list does not fit the tree, or a test fails without a fault */
  async check(mutants: readonly Mutant[]): Promise<void> {
    for (const mutant of mutants) {
      withFault(readFileSync(join(this.#copy.directory, mutant.file), "utf8"), mutant);
    }
    const files = [...new Set(mutants.map(({ caughtBy }) => caughtBy))].toSorted();
    const missing = files.filter((file) => !existsSync(join(this.#copy.directory, file)));
    if (missing.length > 0) {
      throw new Error(`there is no ${missing.join(", ")}`);
    }
    log(`without a fault: ${files.length} test files …`);
    requireGreen(await this.#runs.files(files), "each file that should notice a fault");
  }

  async measure(mutant: Mutant): Promise<Row> {
    const began = performance.now();
    const found = await this.#search(mutant);
    const { name, breaks } = mutant;
    return { name, breaks, ...found, seconds: Math.round((performance.now() - began) / 100) / 10 };
  }

  /** Makes one fault, and looks for a test that notices it: first where it is expected, then everywhere. */
  async #search(mutant: Mutant): Promise<Finding> {
    const { file, caughtBy } = mutant;
    const errors = file.endsWith(".ts")
      ? await this.#copy.with(mutant, async () => await this.#runs.compile())
      : undefined;
    if (errors !== undefined) {
      return finding("invalid", { kind: "broken", message: errors });
    }
    const first = await this.#copy.with(mutant, async () => await this.#runs.files([caughtBy]));
    if (first.kind !== "green") {
      const verdict = IN_NPM_TEST.test(caughtBy) ? "npm test" : "npm run test:all";
      return finding(first.kind === "failed" ? verdict : "invalid", first);
    }
    for (const command of this.#commands) {
      await this.#requireGreenCommand(command, mutant);
      const result = await this.#copy.with(mutant, async () => await this.#runs.command(command));
      if (result.kind !== "green") {
        const verdict = command === "test" ? "npm test" : "npm run test:all";
        return finding(result.kind === "failed" ? verdict : "invalid", result);
      }
    }
    return finding("survives");
  }

  async #requireGreenCommand(command: "test" | "test:all", { name, caughtBy }: Mutant): Promise<void> {
    if (!this.#green.has(command)) {
      log(`${name} survives ${caughtBy}; without a fault: npm run ${command} …`);
      requireGreen(await this.#runs.command(command), `npm run ${command}`);
      this.#green.add(command);
    }
  }
}

function lineOf({ name, verdict, file, test, message, seconds }: Row): string {
  const outside = verdict === "npm run test:all" ? " (not in npm test)" : "";
  const by = file === null ? verdict.toUpperCase() : `${file}: ${test ?? ""}${outside}`;
  return `${name.padEnd(36)}${seconds.toFixed(1).padStart(7)} s  ${by}${message === null ? "" : `\n${message}`}`;
}

function summaryOf(rows: readonly Row[]): string {
  const count = (wanted: Verdict): number => rows.filter(({ verdict }) => verdict === wanted).length;
  const also = (wanted: Verdict, words: string): string =>
    count(wanted) === 0 ? "" : `, ${count(wanted)} ${words}`;
  const others = also("npm run test:all", "only by npm run test:all") + also("invalid", "invalid");
  return `${count("npm test")} of ${rows.length} caught by npm test${others}, ${count("survives")} survive`;
}

/** @returns the exit code */
async function measureAll({ chosen, all, json }: Options): Promise<number> {
  let runs: Runs | undefined;
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await runs?.stop();
    process.exit(130);
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    // One Ctrl-C arrives twice under npm: from the terminal and from npm.
    process.on(signal, () => void (stopping ??= stop()));
  }
  const copy = await copyTree();
  runs = new Runs(copy.directory);
  const measurement = new Measurement(copy, runs, all);
  await measurement.check(chosen);
  const rows: Row[] = [];
  for (const mutant of chosen) {
    const row = await measurement.measure(mutant);
    rows.push(row);
    log(lineOf(row));
  }
  if (json !== undefined) {
    await writeFile(json, `${JSON.stringify({ rows }, undefined, 2)}\n`);
  }
  log(summaryOf(rows));
  return rows.every(({ verdict }) => verdict.startsWith("npm")) ? 0 : 1;
}

async function main(): Promise<number> {
  let options: Options;
  try {
    options = parse(process.argv.slice(2));
  } catch (error) {
    log(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return 2;
  }
  if (options.list) {
    options.chosen.forEach(({ name, breaks }) => log(`${name.padEnd(36)}${breaks}`));
    return 0;
  }
  try {
    return await measureAll(options);
  } catch (error) {
    log(error instanceof Error ? error.message : String(error));
    return 1;
  }
}

process.exit(await main());
