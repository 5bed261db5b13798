import { beforeEach, expect, test } from "vitest";
import { PacedTurns } from "#runtime/paced-turns.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

let time: SimulatedTime;

const PER_SECOND = 50;

beforeEach(() => {
  time = new SimulatedTime();
});

/** Takes turns, and returns the owners in the order of their turns. */
async function granted(turns: PacedTurns, owners: readonly string[]): Promise<string[]> {
  const order: string[] = [];
  const all = Promise.all(
    owners.map(async (owner) => {
      if (await turns.take(owner)) {
        order.push(owner);
      }
    }),
  );
  await time.runOut();
  await all;
  return order;
}

test("grants a burst at once, then the owners' turns alternate at the rate", async () => {
  const turns = new PacedTurns({ timers: time, perSecond: PER_SECOND, burst: 2, waitingMax: 10 });
  const startedAt = time.now;
  expect(await granted(turns, ["a", "a", "a", "a", "a", "b"])).toEqual(["a", "a", "a", "b", "a", "a"]);
  expect(time.now - startedAt).toBe((4 * 1_000) / PER_SECOND);
});

test("refuses turns beyond its limit, and accepts more once some were granted", async () => {
  const turns = new PacedTurns({ timers: time, perSecond: PER_SECOND, burst: 1, waitingMax: 2 });
  expect(await granted(turns, ["a", "a", "a", "a"])).toEqual(["a", "a", "a"]);
  expect(await granted(turns, ["b"])).toEqual(["b"]);
});

test("beyond its limit, the owner with most waiting turns loses its newest one to others with fewer", async () => {
  const turns = new PacedTurns({ timers: time, perSecond: PER_SECOND, burst: 1, waitingMax: 3 });
  // After the first, three of `a` wait. `b` gets a place, then both have as many as `b` may take.
  expect(await granted(turns, ["a", "a", "a", "a", "b", "b", "a"])).toEqual(["a", "a", "b", "a"]);
  expect(await granted(turns, ["b"])).toEqual(["b"]);
});

test("an owner that waits for longer, but has fewer turns, keeps its place", async () => {
  const turns = new PacedTurns({ timers: time, perSecond: PER_SECOND, burst: 1, waitingMax: 4 });
  expect(await granted(turns, ["x", "b", "a", "a", "a", "c"])).toEqual(["x", "b", "a", "c", "a"]);
});

test("stopped, it refuses those that wait and further ones", async () => {
  const turns = new PacedTurns({ timers: time, perSecond: 1, burst: 1, waitingMax: 10 });
  const order = granted(turns, ["a", "a", "b"]);
  turns.stop();
  expect(await order).toEqual(["a"]);
  expect(await turns.take("c")).toBe(false);
});
