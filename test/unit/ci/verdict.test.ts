import { expect, test } from "vitest";
import {
  filesToRepeat,
  judge,
  readOutside,
  readReport,
  type Repeated,
  type Result,
  slowestFiles,
} from "#test/ci/verdict.ts";

const EDGE = "test/e2e/edge.test.ts";
const failureIn = (file: string, name = "a bound") => ({ file, test: name, message: "late by 3 ms\n at x" });
const part = (...files: string[]): Result => ({
  part: "all other tests",
  exitCode: files.length === 0 ? 0 : 1,
  passed: 10,
  failures: files.map((file) => failureIn(file)),
  times: [],
});
const again = (file: string, exitCode: number): Repeated => ({
  part: "all other tests",
  file,
  exitCode,
  passed: 3,
  failures: exitCode === 0 ? [] : [failureIn(file)],
  times: [],
});

test("a run without failures is green", () => {
  expect(judge([part(), part()], [])).toEqual({ lines: [], passed: 20, failed: 0, flaked: 0, green: true });
});

test("a failed file that passes alone has flaked, and the run is green", () => {
  expect(filesToRepeat([part(EDGE)])).toEqual([{ part: "all other tests", file: EDGE }]);
  expect(judge([part(EDGE)], [again(EDGE, 0)])).toEqual({
    lines: [`FLAKED ${EDGE} › a bound: late by 3 ms`],
    passed: 11,
    failed: 0,
    flaked: 1,
    green: true,
  });
});

test("a file that fails twice makes the run red", () => {
  const verdict = judge([part(EDGE)], [again(EDGE, 1)]);
  expect(verdict).toMatchObject({ passed: 10, failed: 1, flaked: 0, green: false });
  expect(verdict.lines).toEqual([`FAILED ${EDGE} › a bound (twice)\n  late by 3 ms\n at x`]);
});

test("a second run without any test does not count", () => {
  expect(judge([part(EDGE)], [{ ...again(EDGE, 0), passed: 0 }])).toMatchObject({ failed: 1, green: false });
});

test("a second run counts only for the part in which the file failed", () => {
  const other = { ...part(EDGE), part: "npm test on Node 22.19.0" };
  expect(filesToRepeat([part(EDGE), other])).toHaveLength(2);
  expect(judge([part(EDGE), other], [again(EDGE, 0)])).toMatchObject({ flaked: 1, failed: 1, green: false });
});

test("a failure of a unit test is final", () => {
  const results = [part(EDGE), part("test/unit/lib/text.test.ts")];
  expect(filesToRepeat(results)).toEqual([]);
  expect(judge(results, [])).toMatchObject({ failed: 2, flaked: 0, green: false });
});

test("three failed files are run again, four are not", () => {
  const files = [1, 2, 3, 4].map((number) => `test/e2e/${number}.test.ts`);
  expect(filesToRepeat([part(...files.slice(1))])).toHaveLength(3);
  expect(filesToRepeat([part(...files)])).toEqual([]);
});

test("a command that fails without a failed test makes the run red", () => {
  expect(judge([{ ...part(), exitCode: 1 }], [])).toMatchObject({
    lines: ["FAILED all other tests: exit code 1, without a failed test"],
    green: false,
  });
});

test("an error outside a test is a failure of its file, and final without a file", () => {
  const lines = [
    "signet: 10 passed, 0 failed, 0 skipped: 2 files (system) in 1 min 0 s",
    `signet: outside a test: ${EDGE}: read ECONNRESET`,
    "signet: outside a test: no file: Worker exited: 1",
  ];
  const [ofFile, ofNone] = readOutside(lines.join("\n"));
  expect(ofFile).toEqual({ file: EDGE, test: "(outside a test)", message: "read ECONNRESET" });
  expect(ofNone).toMatchObject({ file: "no file", message: "Worker exited: 1" });
  const result = (...failures: (typeof ofFile)[]) => ({
    ...part(EDGE),
    failures: failures.filter((f) => f !== undefined),
  });
  expect(filesToRepeat([result(ofFile)])).toEqual([{ part: "all other tests", file: EDGE }]);
  expect(filesToRepeat([result(ofFile, ofNone)])).toEqual([]);
  expect(judge([result(failureIn(EDGE), ofNone)], [again(EDGE, 0)])).toMatchObject({
    flaked: 1,
    failed: 1,
    green: false,
  });
});

test("a run of no test is red", () => {
  expect(judge([{ ...part(), passed: 0 }], []).green).toBe(false);
});

test("a file that cannot be loaded counts as one failed test", () => {
  const loaded = {
    name: `/clone/${EDGE}`,
    status: "failed",
    startTime: 1_000,
    endTime: 3_400,
    assertionResults: [
      { status: "failed", fullName: "a bound", failureMessages: ["Error: STACK_TRACE_ERROR\n at x"] },
      { status: "passed", fullName: "another" },
    ],
  };
  const unloaded = {
    name: "/clone/test/e2e/x.test.ts",
    status: "failed",
    message: "no",
    startTime: 0,
    endTime: 1_000,
    assertionResults: [],
  };
  const report = { numPassedTests: 1, testResults: [loaded, unloaded] };
  expect(readReport(report, "/clone")).toEqual({
    passed: 1,
    failures: [
      { file: EDGE, test: "a bound", message: "Error: timed out\n at x" },
      { file: "test/e2e/x.test.ts", test: "(the file)", message: "no" },
    ],
    times: [
      { file: EDGE, seconds: 2.4 },
      { file: "test/e2e/x.test.ts", seconds: 1 },
    ],
  });
});

test("the slowest files of all parts are told, the slowest first", () => {
  const took = (seconds: number) => ({ ...part(), times: [{ file: EDGE, seconds }] });
  expect(slowestFiles([took(1), took(120), took(12)], 2)).toEqual([
    `SLOW  120 s  ${EDGE}`,
    `SLOW   12 s  ${EDGE}`,
  ]);
});
