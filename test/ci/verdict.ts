/**
 * Judges the test reports of a CI run. There are two classes of test files, by folder. Those of test/unit hold no clock,
 * process or socket: a failure there is final. The others need a real machine, which may stand still, so a failed file
 * is run once more, alone. It has flaked if it passes then.
 */
import { relative, sep } from "node:path";

/** If more files fail, the machine or the change is wrong, and none is run again. */
const FLAKED_MAX = 3;
/** Characters of a failure that are repeated at the end. */
const MESSAGE_MAX = 1_500;
/** Vitest's JSON gives a test that timed out the stack of its declaration, without the message. */
const TIMED_OUT = /^Error: STACK_TRACE_ERROR/;

/** What vitest's JSON reporter writes, as far as it is used. */
export interface Report {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    /** Absolute path. */
    readonly name: string;
    readonly status: string;
    readonly message?: string;
    /** Unix milliseconds. */
    readonly startTime: number;
    readonly endTime: number;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages?: readonly string[] | null;
    }[];
  }[];
}

export interface Failure {
  /** Path relative to the clone. */
  readonly file: string;
  readonly test: string;
  readonly message: string;
}

/** How long a test file took. */
export interface FileTime {
  readonly file: string;
  readonly seconds: number;
}

/** Result of one command that runs tests. */
export interface Result {
  /** Name of the command. */
  readonly part: string;
  readonly exitCode: number;
  readonly passed: number;
  readonly failures: readonly Failure[];
  readonly times: readonly FileTime[];
}

/** Result of a failed file's second run. `part` is the one in which it failed. */
export interface Repeated extends Result {
  readonly file: string;
}

export interface Verdict {
  /** One entry for each failed or flaked test, and for each command that failed without one. */
  readonly lines: readonly string[];
  readonly passed: number;
  readonly failed: number;
  readonly flaked: number;
  readonly green: boolean;
}

/**
 * Returns what a report says. A file that cannot be loaded, or whose hook fails, counts as one failed test.
 *
 * @param root directory of the clone
 */
export function readReport(report: Report, root: string): Pick<Result, "passed" | "failures" | "times"> {
  const fileOf = (name: string): string => relative(root, name).replaceAll(sep, "/");
  const failures = report.testResults.flatMap(
    ({ name, status, message = "", assertionResults }): Failure[] => {
      const file = fileOf(name);
      const failed = assertionResults.filter((test) => test.status === "failed");
      if (status === "failed" && failed.length === 0) {
        return [{ file, test: "(the file)", message }];
      }
      return failed.map(({ fullName, failureMessages }) => {
        const said = (failureMessages ?? []).join("\n");
        return { file, test: fullName, message: said.replace(TIMED_OUT, "Error: timed out") };
      });
    },
  );
  const times = report.testResults.map(({ name, startTime, endTime }) => ({
    file: fileOf(name),
    seconds: (endTime - startTime) / 1_000,
  }));
  return { passed: report.numPassedTests, failures, times };
}

/** Returns a line for each of the slowest files, the slowest first. */
export function slowestFiles(results: readonly Pick<Result, "times">[], count: number): readonly string[] {
  return results
    .flatMap(({ times }) => times)
    .toSorted((a, b) => b.seconds - a.seconds)
    .slice(0, count)
    .map(({ file, seconds }) => `SLOW ${String(Math.round(seconds)).padStart(4)} s  ${file}`);
}

/**
 * Returns the errors outside of tests, which vitest's JSON leaves out. Each counts as a failed test of its file.
 *
 * @param output what test/support/run-summary.ts printed
 */
export function readOutside(output: string): readonly Failure[] {
  return [...output.matchAll(/^signet: outside a test: ([^:\n]+): (.*)$/gm)].map(
    ([, file = "", message = ""]) => ({ file, test: "(outside a test)", message }),
  );
}

/** Returns the failed files that may be run again: none if one of them is final, or if there are too many. */
export function filesToRepeat(results: readonly Result[]): readonly Pick<Repeated, "part" | "file">[] {
  const failed = results.flatMap(({ part, failures }) =>
    [...new Set(failures.map(({ file }) => file))].map((file) => ({ part, file })),
  );
  const final = failed.some(({ file }) => !file.startsWith("test/") || file.startsWith("test/unit/"));
  return final || failed.length > FLAKED_MAX ? [] : failed;
}

/** Returns the first line of a failure's message. */
export function firstLine(message: string): string {
  return message.trim().split("\n", 1)[0] ?? "";
}

/** Judges a run. It is green if each failed test has flaked, and each command without a failed test has exit code 0. */
export function judge(results: readonly Result[], repeated: readonly Repeated[]): Verdict {
  const count = { passed: 0, failed: 0, flaked: 0 };
  const lines: string[] = [];
  let green = true;
  for (const { part, exitCode, passed, failures } of results) {
    count.passed += passed;
    for (const { file, test, message } of failures) {
      const again = repeated.find((each) => each.part === part && each.file === file);
      const flaked = again?.exitCode === 0 && again.passed > 0;
      count.flaked += flaked ? 1 : 0;
      count.passed += flaked ? 1 : 0;
      count.failed += flaked ? 0 : 1;
      lines.push(
        flaked
          ? `FLAKED ${file} › ${test}: ${firstLine(message)}`
          : `FAILED ${file} › ${test}${again === undefined ? "" : " (twice)"}\n  ${message.slice(0, MESSAGE_MAX)}`,
      );
    }
    if (exitCode !== 0 && failures.length === 0) {
      green = false;
      lines.push(`FAILED ${part}: exit code ${exitCode}, without a failed test`);
    }
  }
  return { lines, ...count, green: green && count.failed === 0 && count.passed > 0 };
}
