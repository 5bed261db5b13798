/** A cell's clock beside the home cell's: which difference pauses its work. */
import { expect, test } from "vitest";
import { CellClock, DatabaseClock } from "#database/database-clock.ts";

const START_MS = Date.UTC(2026, 0, 1);
const machine = { wall: () => START_MS, monotonic: () => 0 };

function clockAt(ms: number): DatabaseClock {
  const clock = new DatabaseClock(machine);
  clock.learn(ms, 0);
  return clock;
}

test.each([
  [0, true],
  [29_000, true],
  [-29_000, true],
  [31_000, false],
  [-31_000, false],
  [240_000, false],
])("a home cell's clock that is wrong by %i ms lets a cell work: %s", (wrongMs, works) => {
  const cell = new CellClock(clockAt(START_MS), clockAt(START_MS + wrongMs));
  expect(cell.isRight).toBe(works);
  expect(cell.now()).toBe(START_MS);
});

test("a cell that does not work says which clocks differ", () => {
  const cell = new CellClock(clockAt(START_MS), clockAt(START_MS + 31_000));
  expect(() => cell.requireRight()).toThrow("differs from that of the home cell");
});

test("a cell works while the home cell's clock is not known", () => {
  expect(new CellClock(clockAt(START_MS), new DatabaseClock(machine)).isRight).toBe(true);
});
