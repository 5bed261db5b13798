import { expect, test } from "vitest";
import { inTurns } from "#test/support/file-order.ts";

test("long files come in turns with short ones, and the others after them", () => {
  expect(inTurns(["long 1", "long 2"], ["1", "2", "3", "4"])).toEqual([
    "long 1",
    "1",
    "long 2",
    "2",
    "3",
    "4",
  ]);
});

test("all files come, also if most are long or there is none", () => {
  expect(inTurns(["long 1", "long 2"], ["1"])).toEqual(["long 1", "1", "long 2"]);
  expect(inTurns([], ["1", "2"])).toEqual(["1", "2"]);
  expect(inTurns([], [])).toEqual([]);
});
