/** The last lines of a test run: what was run, what was skipped and why, what was not run, and how to run it. */
import { readdirSync } from "node:fs";
import { join, relative, sep } from "node:path";
import type { UserConsoleLog } from "vitest";
import type { Reporter, SerializedError, TestModule, Vitest } from "vitest/node";

/** Begins the lines of `skipUnless` (test/support/skips.ts). */
const SKIPPED = "SKIPPED: ";
const TESTS = join(import.meta.dirname, "..");
const ROOT = join(TESTS, "..");
const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? "" : "s"}`;

/** Returns every test file, relative to test/. */
function testFiles(): string[] {
  return readdirSync(TESTS, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".test.ts"),
  );
}

/** Prints the summary after the report of vitest's own reporter. */
export default class RunSummary implements Reporter {
  readonly #reasons = new Map<string, number>();
  #startedAt = 0;
  #sharded = false;

  onInit(vitest: Vitest): void {
    this.#startedAt = performance.now();
    this.#sharded = vitest.config.shard !== undefined;
  }

  onUserConsoleLog({ content }: UserConsoleLog): void {
    for (const line of content.split("\n")) {
      if (line.startsWith(SKIPPED)) {
        const reason = line.slice(SKIPPED.length);
        this.#reasons.set(reason, (this.#reasons.get(reason) ?? 0) + 1);
      }
    }
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const tests = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    for (const module of modules) {
      const before = tests.failed;
      for (const test of module.children.allTests()) {
        tests[test.result().state] += 1;
      }
      // A file that cannot be loaded, or whose hook fails, has no failed test.
      tests.failed += module.state() === "failed" && tests.failed === before ? 1 : 0;
    }
    const seconds = Math.round((performance.now() - this.#startedAt) / 1_000);
    const projects = [...new Set(modules.map(({ project }) => project.name))].join(", ");
    const lines = [
      `${tests.passed} passed, ${tests.failed} failed, ${tests.skipped} skipped: ` +
        `${count(modules.length, "file")} (${projects}) in ${Math.floor(seconds / 60)} min ${seconds % 60} s`,
      ...unhandled.map(
        ({ VITEST_TEST_PATH: path, message }) =>
          `outside a test: ${typeof path === "string" ? relative(ROOT, path) : "no file"}: ${message.split("\n", 1)[0]}`,
      ),
      ...[...this.#reasons.keys()].map((reason) => `skipped: ${reason}`),
      ...this.#notRun(modules),
    ];
    console.log(lines.map((line) => `signet: ${line}`).join("\n"));
  }

  #notRun(modules: readonly TestModule[]): string[] {
    const run = new Set(modules.map(({ moduleId }) => relative(TESTS, moduleId)));
    const others = testFiles().filter((path) => !run.has(path));
    if (others.length === 0 || this.#sharded) {
      return [];
    }
    const folders = new Map<string, number>();
    for (const path of others) {
      const [folder = ""] = path.split(sep);
      folders.set(folder, (folders.get(folder) ?? 0) + 1);
    }
    const parts = [...folders].toSorted(([, a], [, b]) => b - a).map(([folder, n]) => `${folder} ${n}`);
    return [
      `not run: ${count(others.length, "file")} (${parts.join(", ")})`,
      "run everything with `npm run test:all`, one file with `npm test -- test/…/name.test.ts`",
    ];
  }
}
