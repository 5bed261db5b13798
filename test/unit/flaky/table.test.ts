import { expect, test } from "vitest";
import { linesOf, tableOf } from "#test/flaky/table.ts";

const failure = (name: string, message = "late") => ({ file: "test/e2e/x.test.ts", test: name, message });

test("each test has one row, the one with the most failures first", () => {
  const rows = tableOf([[failure("a"), failure("b", "first\nsecond")], [], [failure("b", "other")]]);
  expect(linesOf(rows, 3)).toEqual([
    "2 of 3 (run 1, 3)  test/e2e/x.test.ts › b: first",
    "1 of 3 (run 1)  test/e2e/x.test.ts › a: late",
  ]);
});

test("runs without failures have no rows", () => {
  expect(tableOf([[], []])).toEqual([]);
});
