/** Runs of the compiler and of the tests in the copy. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFile, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Report } from "../ci/verdict.ts";

/** Longest run, in milliseconds. Tests have limits of their own, so a longer one hangs. */
const RUN_MAX_MS = 45 * 60_000;
/** How long interrupted tests may take to stop their servers. */
const STOP_MAX_MS = 20_000;
/** Characters of a run's output that are kept for a message. */
const TAIL = 4_000;
const TSC = join("node_modules", "typescript", "bin", "tsc");
const VITEST = join("node_modules", "vitest", "vitest.mjs");
const BOOTSTRAP = join("src", "bootstrap.mjs");

/** Result of a run: green, a failed test, or a run that says nothing because tests could not be loaded. */
export type RunResult =
  | { readonly kind: "green" }
  | { readonly kind: "failed"; readonly file: string; readonly test: string }
  | { readonly kind: "broken"; readonly message: string };

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

export class Runs {
  readonly #directory: string;
  #child: ChildProcess | undefined;

  /** @param directory the copy of the tree */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Returns the compiler's errors; undefined if there are none. */
  async compile(): Promise<string | undefined> {
    const { code, output } = await this.#run([TSC, "-p", "tsconfig.build.json", "--noEmit"]);
    return code === 0 ? undefined : output;
  }

  /** Runs test files up to the first failure. */
  async files(files: readonly string[]): Promise<RunResult> {
    return await this.#test([VITEST, "run", ...files]);
  }

  /** Runs `npm test` or `npm run test:all` up to the first failure. */
  async command(name: "test" | "test:all"): Promise<RunResult> {
    return await this.#test([BOOTSTRAP, name]);
  }

  /** Interrupts the running process, which stops the servers of its tests. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (child === undefined) {
      return;
    }
    const ended = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGINT");
    await Promise.race([ended, delay(STOP_MAX_MS, undefined, { ref: false })]);
    child.kill("SIGKILL");
  }

  async #test(args: readonly string[]): Promise<RunResult> {
    const path = join(this.#directory, "mutants-report.json");
    await rm(path, { force: true });
    const { code, output } = await this.#run([
      ...args,
      "--bail=1",
      "--reporter=json",
      `--outputFile.json=${path}`,
    ]);
    if (code === 0) {
      return { kind: "green" };
    }
    const report = await readFile(path, "utf8").catch(() => undefined);
    return this.#failureIn(report) ?? { kind: "broken", message: output };
  }

  /** A file that could not be loaded has no tests, and says nothing about a fault. */
  #failureIn(text: string | undefined): RunResult | undefined {
    const { testResults }: Pick<Report, "testResults"> =
      text === undefined ? { testResults: [] } : (JSON.parse(text) as Report);
    const failures = testResults.flatMap(({ name, status, assertionResults }) => {
      const test = assertionResults.find((each) => each.status === "failed");
      const loaded = status === "failed" && assertionResults.length > 0;
      return loaded ? [{ file: relative(this.#directory, name), test: test?.fullName }] : [];
    });
    const first = failures.find(({ test }) => test !== undefined) ?? failures[0];
    return first && { kind: "failed", file: first.file, test: first.test ?? "(a hook)" };
  }

  async #run(args: readonly string[]): Promise<Ended> {
    return await new Promise((resolve, reject) => {
      // In its own session, so that Ctrl-C arrives once, through `stop`.
      const child = spawn(process.execPath, args, {
        cwd: this.#directory,
        stdio: ["ignore", "pipe", "pipe"],
        detached: true,
        timeout: RUN_MAX_MS,
        killSignal: "SIGINT",
      });
      this.#child = child;
      let output = "";
      const keep = (text: string): void => {
        output = (output + text).slice(-TAIL);
      };
      child.stdout.setEncoding("utf8").on("data", keep);
      child.stderr.setEncoding("utf8").on("data", keep);
      child.once("error", reject);
      child.once("close", (code) => {
        this.#child = undefined;
        resolve({ code, output });
      });
    });
  }
}
