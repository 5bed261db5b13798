import { expect, test } from "vitest";
import { atMost, verdictOf } from "#test/chaos/result.ts";
import { longestRefusal } from "#test/chaos/admissions.ts";

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

test.each([
  ["admissions only", [200, 200, 200], 0],
  ["a refusal between two admissions", [200, 503, 200], 0.1],
  ["refusals until the end, without an answer at first", [200, 0, 503, 503], 0.2],
  ["two pauses, of which the longer counts", [200, 503, 200, 503, 503, 200], 0.2],
  ["refusals before the instant", [503, 503, 200], 0.1],
])("the longest refusal of %s", (_name, statuses, seconds) => {
  const verdicts = statuses.map((status, index) => {
    const answeredMs = index * 100;
    return { status, answeredMs, sentMs: answeredMs, admittedMs: undefined };
  });
  expect(longestRefusal(verdicts, 100)).toBeCloseTo(seconds);
});
