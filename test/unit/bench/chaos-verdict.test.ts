import { expect, test } from "vitest";
import { atMost, verdictOf } from "../../chaos/result.ts";

const HELD = { targets: [atMost("lost", 0, 0)] };
const BROKEN = { targets: [atMost("lost", 1, 0)] };
const SKIPPED = { skipped: "cannot mount a disk on this machine" };

test("a chaos case that was skipped has not held, and fails the run of a release", () => {
  expect(verdictOf([HELD, SKIPPED], 0, false)).toEqual({
    line: "1 of 2 cases held, 1 skipped",
    passes: true,
  });
  expect(verdictOf([HELD, SKIPPED], 0, true).passes).toBe(false);
  expect(verdictOf([HELD], 0, true)).toEqual({ line: "1 of 1 cases held", passes: true });
});

test("a chaos case that broke a bound or ended with an error fails every run", () => {
  expect(verdictOf([HELD, BROKEN], 0, false)).toEqual({ line: "1 of 2 cases held", passes: false });
  expect(verdictOf([HELD], 1, false)).toEqual({ line: "1 of 2 cases held", passes: false });
});
