import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  ATTEMPT_MAX,
  drawOffsets,
  type FailedAttempt,
  gapBefore,
  nextDueMs,
  type Random,
  shiftForLateness,
  togetherMs,
} from "#domain/retry-schedule.ts";

const HOUR_MS = 3_600_000;
const WINDOW_MS = 72 * HOUR_MS;
const ATTEMPTS = Array.from({ length: ATTEMPT_MAX }, (_, index) => index + 1);

const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
/** Random values for a full schedule, drawn in order. */
const chances = fc.array(chance, { minLength: ATTEMPT_MAX - 1, maxLength: ATTEMPT_MAX - 1 });
const windows = fc.integer({ min: 1_000, max: WINDOW_MS });

function randomOf(values: readonly number[]): Random {
  let next = 0;
  return () => values[next++ % values.length] ?? 0;
}

/** The instants of the specification, before anything is subtracted: 0, then 72 h / 2^(17 - k). */
function grid(attempt: number, windowMs = WINDOW_MS): number {
  return attempt === 1 ? 0 : windowMs / 2 ** (17 - attempt);
}

const schedule = chances.map((values) => drawOffsets(WINDOW_MS, randomOf(values)));
const retried = fc.integer({ min: 1, max: ATTEMPT_MAX - 1 });
const anchor = fc.integer({ min: 1_700_000_000_000, max: 1_900_000_000_000 });

function offset(offsets: readonly number[], attempt: number): number {
  return offsets[attempt - 1] ?? Number.NaN;
}

/** The room that later attempts need before the last slot: 10 seconds and a rest for each. */
function roomMs(offsets: readonly number[], attempt: number): number {
  return (ATTEMPT_MAX - attempt) * 2 * gapBefore(offsets, 2);
}

/** Returns an attempt that ended this many milliseconds after its grid point. */
function failed(
  offsets: readonly number[],
  attempt: number,
  more: { readonly anchorMs: number; readonly tookMs: number; readonly retryAfterMs?: number },
): FailedAttempt {
  return {
    offsets,
    anchorMs: more.anchorMs,
    attempt,
    endedAtMs: more.anchorMs + offset(offsets, attempt) + more.tookMs,
    retryAfterMs: more.retryAfterMs ?? null,
  };
}

describe("a drawn schedule", () => {
  test("has 17 attempts at whole, increasing milliseconds, the first at 0", () => {
    fc.assert(
      fc.property(schedule, (offsets) => {
        expect(offsets).toHaveLength(17);
        expect(offsets[0]).toBe(0);
        for (const attempt of ATTEMPTS.slice(1)) {
          expect(Number.isInteger(offset(offsets, attempt))).toBe(true);
          expect(offset(offsets, attempt)).toBeGreaterThan(offset(offsets, attempt - 1));
        }
      }),
    );
  });

  test("doubles the elapsed time, less one second and at most a tenth of the gap or 15 minutes", () => {
    fc.assert(
      fc.property(schedule, (offsets) => {
        for (const attempt of ATTEMPTS.slice(1)) {
          const gap = grid(attempt) - grid(attempt - 1);
          const latest = grid(attempt) - 1_000;
          expect(offset(offsets, attempt)).toBeLessThanOrEqual(latest);
          expect(offset(offsets, attempt)).toBeGreaterThanOrEqual(
            Math.floor(latest - Math.min(0.1 * gap, 0.25 * HOUR_MS)),
          );
        }
      }),
    );
  });

  test("makes its last attempt between 71:44:59 and 72:00", () => {
    fc.assert(
      fc.property(schedule, (offsets) => {
        expect(offset(offsets, 17)).toBeGreaterThanOrEqual(71.75 * HOUR_MS - 1_000);
        expect(offset(offsets, 17)).toBeLessThan(WINDOW_MS);
      }),
    );
  });

  test("uses its full jitter: chance 0 gives the latest instant, chance near 1 the earliest", () => {
    const latest = drawOffsets(WINDOW_MS, () => 0);
    const earliest = drawOffsets(WINDOW_MS, () => 1 - Number.EPSILON);
    expect(latest.slice(0, 5)).toEqual([0, 6_910, 14_820, 30_640, 62_281]);
    expect(latest.slice(-2)).toEqual([36 * HOUR_MS - 1_000, WINDOW_MS - 1_000]);
    for (const attempt of ATTEMPTS.slice(1)) {
      const width = Math.min(0.1 * (grid(attempt) - grid(attempt - 1)), 0.25 * HOUR_MS);
      expect(Math.abs(offset(latest, attempt) - offset(earliest, attempt) - width)).toBeLessThanOrEqual(1);
    }
  });

  test("keeps its shape in a scaled window, down to a second", () => {
    fc.assert(
      fc.property(windows, chances, (windowMs, values) => {
        const offsets = drawOffsets(windowMs, randomOf(values));
        const scale = windowMs / WINDOW_MS;
        expect(offsets).toHaveLength(17);
        expect(offset(offsets, 17)).toBeLessThanOrEqual(windowMs);
        expect(offset(offsets, 17)).toBeGreaterThanOrEqual(
          Math.floor(windowMs - scale * (1_000 + 0.25 * HOUR_MS)),
        );
        for (const attempt of ATTEMPTS.slice(1)) {
          expect(offset(offsets, attempt)).toBeLessThanOrEqual(grid(attempt, windowMs));
          expect(offset(offsets, attempt)).toBeGreaterThanOrEqual(offset(offsets, attempt - 1));
        }
      }),
    );
  });
});

describe("the next attempt", () => {
  test("is due at its grid point when the previous one ended early", () => {
    fc.assert(
      fc.property(schedule, retried, anchor, chance, (offsets, attempt, anchorMs, share) => {
        const tookMs = Math.floor((share * gapBefore(offsets, attempt + 1)) / 2);
        const { dueMs } = nextDueMs(failed(offsets, attempt, { anchorMs, tookMs }));
        expect(dueMs).toBe(anchorMs + offset(offsets, attempt + 1));
      }),
    );
  });

  test("starts half a gap after a hung one ended, unless the window ends before", () => {
    fc.assert(
      fc.property(schedule, retried, anchor, fc.nat(20 * HOUR_MS), (offsets, attempt, anchorMs, tookMs) => {
        const attempted = failed(offsets, attempt, { anchorMs, tookMs });
        const { dueMs } = nextDueMs(attempted);
        const pauseMs = dueMs - attempted.endedAtMs;
        const latest = anchorMs + offset(offsets, 17) - roomMs(offsets, attempt + 1);
        expect(pauseMs).toBeGreaterThanOrEqual(
          Math.min(gapBefore(offsets, attempt + 1) / 2, latest - attempted.endedAtMs),
        );
        // A receiver that hangs for 10 seconds gets 3 seconds of rest before the second attempt.
        expect(pauseMs).toBeGreaterThan(3_000);
      }),
    );
  });

  test("waits as long as Retry-After asks, up to 24 hours, where the window has room", () => {
    fc.assert(
      fc.property(
        schedule,
        retried,
        anchor,
        fc.nat(100 * HOUR_MS),
        (offsets, attempt, anchorMs, retryAfterMs) => {
          const without = nextDueMs(failed(offsets, attempt, { anchorMs, tookMs: 100 }));
          const attempted = failed(offsets, attempt, { anchorMs, tookMs: 100, retryAfterMs });
          const askedMs = attempted.endedAtMs + Math.min(retryAfterMs, 24 * HOUR_MS);
          const latest = Math.ceil(anchorMs + offset(offsets, 17) - roomMs(offsets, attempt + 1));
          const { dueMs, asked } = nextDueMs(attempted);
          expect(without.asked).toBe(false);
          expect(dueMs).toBe(Math.max(without.dueMs, Math.min(askedMs, latest)));
          expect(asked).toBe(dueMs > without.dueMs);
        },
      ),
    );
  });

  test("is one of 17 within the window, each after the previous one, whatever receivers ask for", () => {
    const askedWaits = fc.array(fc.option(fc.nat(200 * HOUR_MS), { nil: null }), {
      minLength: 16,
      maxLength: 16,
    });
    const lives = fc.array(fc.nat(10_000), { minLength: 16, maxLength: 16 });
    fc.assert(
      fc.property(schedule, anchor, askedWaits, lives, (offsets, anchorMs, retryAfters, tookMs) => {
        let dueMs = anchorMs;
        for (let attempt = 1; attempt < ATTEMPT_MAX; attempt += 1) {
          const endedAtMs = dueMs + (tookMs[attempt - 1] ?? 0);
          const retryAfterMs = retryAfters[attempt - 1] ?? null;
          dueMs = nextDueMs({ offsets, anchorMs, attempt, endedAtMs, retryAfterMs }).dueMs;
          expect(dueMs - endedAtMs).toBeGreaterThan(2_000);
          expect(dueMs).toBeLessThanOrEqual(anchorMs + offset(offsets, 17));
        }
        expect(dueMs).toBe(anchorMs + offset(offsets, 17));
      }),
    );
  });

  test("keeps its pauses in a scaled window that requests outlive, and then ignores Retry-After", () => {
    fc.assert(
      fc.property(windows, chances, retried, anchor, (windowMs, values, attempt, anchorMs) => {
        const offsets = drawOffsets(windowMs, randomOf(values));
        const tookMs = windowMs;
        const attempted = failed(offsets, attempt, { anchorMs, tookMs, retryAfterMs: 9_000 });
        expect(nextDueMs(attempted)).toEqual({
          dueMs: Math.ceil(attempted.endedAtMs + gapBefore(offsets, attempt + 1) / 2),
          asked: false,
        });
      }),
    );
  });

  test("is rejected after the 17th", () => {
    const offsets = drawOffsets(WINDOW_MS, () => 0);
    expect(() => nextDueMs(failed(offsets, 17, { anchorMs: 0, tookMs: 0 }))).toThrow(RangeError);
  });
});

describe("an attempt delayed by our own outage", () => {
  const late = fc.nat(100 * HOUR_MS);

  test("shifts the rest by its full delay if that exceeds a tenth of its gap, else not at all", () => {
    fc.assert(
      fc.property(schedule, fc.integer({ min: 2, max: 17 }), chance, (offsets, attempt, share) => {
        const gap = gapBefore(offsets, attempt);
        for (const lateMs of [share * 0.1 * gap, 0.1 * gap]) {
          expect(shiftForLateness(offsets, attempt, lateMs)).toBe(0);
        }
        for (const lateMs of [0.1 * gap + 1, (0.1 + share) * gap + 1, 100 * gap]) {
          expect(shiftForLateness(offsets, attempt, lateMs)).toBe(lateMs);
        }
      }),
    );
  });

  test("never shifts for the first attempt, which sets the grid, nor for an early one", () => {
    fc.assert(
      fc.property(schedule, retried, late, (offsets, attempt, lateMs) => {
        expect(shiftForLateness(offsets, 1, lateMs)).toBe(0);
        expect(shiftForLateness(offsets, attempt, -lateMs)).toBe(0);
      }),
    );
  });
});

describe("members of one list", () => {
  test("are attempted together when due within a second, or within 2 % of the gap if that is longer", () => {
    fc.assert(
      fc.property(schedule, fc.integer({ min: 2, max: 17 }), (offsets, attempt) => {
        // The second shrinks slightly where jitter has shortened the window.
        const least = 1_000 * Math.min(1, offset(offsets, 17) / WINDOW_MS);
        expect(togetherMs(offsets, attempt)).toBe(Math.max(least, 0.02 * gapBefore(offsets, attempt)));
        expect(least).toBeGreaterThan(990);
      }),
    );
  });

  test("are not all grouped in a scaled window", () => {
    const offsets = drawOffsets(2_000, () => 0.5);
    for (const attempt of ATTEMPTS) {
      expect(togetherMs(offsets, attempt)).toBeLessThanOrEqual(0.02 * 2_000);
    }
  });
});
