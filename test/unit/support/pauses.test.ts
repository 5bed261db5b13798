/** The watch for pauses of the machine, with a clock and waits of the test. */
import { describe, expect, test } from "vitest";
import {
  createNotes,
  keepTicking,
  type Notes,
  type Pause,
  PAUSE_MS,
  watchOf,
  withoutPause,
} from "#test/support/pauses.ts";

const LONG_AGO_MS = 86_400_000 * 1_000;

/** Ticks after waits of these lengths. @returns the notes, and the last time */
function tick(waits: readonly number[]): { readonly notes: Notes; readonly now: number } {
  const notes = createNotes();
  const left = waits.values();
  let now = LONG_AGO_MS;
  keepTicking(
    notes,
    () => now,
    () => {
      const { done, value = 0 } = left.next();
      now += value;
      return done !== true;
    },
  );
  return { notes, now };
}

function pausesOf(waits: readonly number[], from = 0, to = Infinity): readonly Pause[] {
  const found = watchOf(tick(waits).notes, () => 0).between(LONG_AGO_MS + from, LONG_AGO_MS + to);
  return found.map((pause) => ({ from: pause.from - LONG_AGO_MS, to: pause.to - LONG_AGO_MS }));
}

describe("the watch", () => {
  test.each([
    [[], []],
    [[10, PAUSE_MS - 1, 10], []],
    [[10, PAUSE_MS, 10], []],
    [[10, PAUSE_MS + 1, 10], [{ from: 10, to: 211 }]],
    [
      [500, 10, 3_000],
      [
        { from: 0, to: 500 },
        { from: 510, to: 3_510 },
      ],
    ],
  ])("notes the pauses among waits of %j ms", (waits, pauses) => {
    expect(pausesOf(waits)).toEqual(pauses);
  });

  test.each([
    ["before the pause", 0, 99, 0],
    ["until the pause begins", 0, 100, 1],
    ["around the pause", 0, 1_000, 1],
    ["within the pause", 200, 300, 1],
    ["from the end of the pause", 500, 1_000, 1],
    ["after the pause", 501, 1_000, 0],
  ])("finds a pause in the time %s", (_name, from, to, count) => {
    expect(pausesOf([100, 400, 100], from, to)).toHaveLength(count);
  });

  test("keeps the last 64 pauses, oldest first", () => {
    const waits = Array.from({ length: 100 }, (_, index) => 1_000 + index);
    const lengths = pausesOf(waits).map(({ from, to }) => to - from);
    expect(lengths).toEqual(waits.slice(-64));
  });

  test("has ticked at the last time, and not later", async () => {
    const { notes, now } = tick([10, 10]);
    await watchOf(notes, () => now).untilTicked(now);
    const later = watchOf(notes, () => now).untilTicked(now + 1);
    keepTicking(
      notes,
      () => now + 1,
      () => false,
    );
    await later;
  });
});

describe("a measurement", () => {
  const MISSED = new Error("the bound does not hold");

  /** Measures with these pauses, by number of the measurement, each of which fails `failures` times. */
  async function measured(
    pauses: Readonly<Record<number, readonly number[]>>,
    failures: number,
  ): Promise<{ readonly result: unknown; readonly runs: number }> {
    let runs = 0;
    const order: string[] = [];
    const watch = {
      clock: () => runs,
      untilTicked: async (at: number) => void (await Promise.resolve(order.push(`ticked ${at}`))),
      between: (from: number, to: number) => {
        expect(order.at(-1)).toBe(`ticked ${to}`);
        expect([from, to]).toEqual([runs - 1, runs]);
        return (pauses[runs] ?? []).map((length) => ({ from: 0, to: length }));
      },
    };
    const measure = async (): Promise<string> => {
      expect(order.at(-1)).toBe(`ticked ${runs}`);
      runs += 1;
      return runs > failures ? await Promise.resolve("measured") : await Promise.reject(MISSED);
    };
    const result = await withoutPause(measure, watch).catch((error: unknown) => error);
    return { result, runs };
  }

  test("that succeeds is made once, also with a pause", async () => {
    expect(await measured({}, 0)).toEqual({ result: "measured", runs: 1 });
    expect(await measured({ 1: [300] }, 0)).toEqual({ result: "measured", runs: 1 });
  });

  test("that fails without a pause fails at once, with its error", async () => {
    const { result, runs } = await measured({ 2: [300] }, 1);
    expect(result).toBe(MISSED);
    expect(runs).toBe(1);
  });

  test("that fails with a pause is made again, until there is none", async () => {
    expect(await measured({ 1: [300], 2: [400] }, 2)).toEqual({ result: "measured", runs: 3 });
    expect(await measured({ 1: [300], 2: [400] }, 3)).toEqual({ result: MISSED, runs: 3 });
  });

  test("that fails with a pause each time is made five times; the error says how long they were", async () => {
    const pauses = { 1: [300], 2: [400, 250], 3: [300], 4: [300], 5: [999] };
    const { result, runs } = await measured(pauses, 9);
    expect(runs).toBe(5);
    expect(result).toMatchObject({
      message:
        "the machine stood still during each measurement: 300 ms; 400 ms and 250 ms; 300 ms; 300 ms; 999 ms",
      cause: MISSED,
    });
  });
});
