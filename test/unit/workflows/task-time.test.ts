/** Events that no workflow task has handled are refused. test/workflows/task-time.test.ts makes some. */
import { expect, test } from "vitest";
import { interceptors } from "#workflows/task-time.ts";

type Activation = readonly [historyLength: number, nanos: number, isReplaying?: boolean];

/** Returns the history lengths that one workflow takes. */
function taken(activations: readonly Activation[]): number[] {
  const [interceptor] = interceptors().internals ?? [];
  const lengths: number[] = [];
  for (const [historyLength, nanos, isReplaying = false] of activations) {
    const activation = { historyLength, isReplaying, timestamp: { nanos } };
    interceptor?.activate?.({ activation, batchIndex: 0 }, () => lengths.push(historyLength));
  }
  return lengths;
}

test("a workflow takes the events of each task, and later ones of the same task", () => {
  expect(
    taken([
      [3, 10],
      [3, 10],
      [9, 11],
    ]),
  ).toEqual([3, 3, 9]);
});

test("it refuses events after the last task", () => {
  expect(() =>
    taken([
      [3, 10, true],
      [7, 10],
    ]),
  ).toThrow("ask again");
});

test("a replay takes whatever is recorded", () => {
  expect(
    taken([
      [3, 10, true],
      [7, 10, true],
    ]),
  ).toEqual([3, 7]);
});
