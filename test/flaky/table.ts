/** Counts the failures of each test over several runs. */
import { type Failure, firstLine } from "../ci/verdict.ts";

/** Failures of one test. */
interface Row {
  readonly file: string;
  readonly test: string;
  /** Numbers of the runs that it failed in. */
  readonly runs: readonly number[];
  /** First line of its first failure. */
  readonly message: string;
}

/** Returns a row for each test that failed, the most failures first. */
export function tableOf(runs: readonly (readonly Failure[])[]): readonly Row[] {
  const rows = new Map<string, Row>();
  runs.forEach((failures, index) => {
    for (const { file, test, message } of failures) {
      const key = `${file} ${test}`;
      const known = rows.get(key) ?? { file, test, runs: [], message: firstLine(message) };
      rows.set(key, { ...known, runs: [...known.runs, index + 1] });
    }
  });
  return [...rows.values()].toSorted(
    (a, b) => b.runs.length - a.runs.length || `${a.file} ${a.test}`.localeCompare(`${b.file} ${b.test}`),
  );
}

/** Returns the table's lines. */
export function linesOf(rows: readonly Row[], runs: number): readonly string[] {
  return rows.map(
    ({ file, test, runs: failed, message }) =>
      `${failed.length} of ${runs} (run ${failed.join(", ")})  ${file} › ${test}: ${message}`,
  );
}
