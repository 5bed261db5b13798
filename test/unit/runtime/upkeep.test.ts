import { describe, expect, test } from "vitest";
import { pauseAfter } from "#runtime/upkeep.ts";

describe("the pause of a job", () => {
  const job = { everyMs: 1_000, idleMs: 8_000 };

  test("doubles up to its limit while runs find nothing", () => {
    const pauses = [1, 2, 3, 4, 5].reduce<number[]>(
      (all) => [...all, pauseAfter(job, all.at(-1) ?? job.everyMs, 0)],
      [],
    );
    expect(pauses).toEqual([2_000, 4_000, 8_000, 8_000, 8_000]);
  });

  test("is the shortest again after a run that found something, or failed", () => {
    expect([pauseAfter(job, 8_000, 3), pauseAfter(job, 8_000, undefined)]).toEqual([1_000, 1_000]);
  });

  test("does not grow without a limit", () => {
    expect(pauseAfter({ everyMs: 1_000 }, 1_000, 0)).toBe(1_000);
  });
});
