import { array, assert, constantFrom, integer, property, record } from "fast-check";
import { describe, expect, test } from "vitest";
import { FixedWindows } from "#domain/fixed-windows.ts";
import { SlidingWindow, type WindowLimit } from "#domain/sliding-window.ts";

const PER_MS = 1_000;
const PAUSES = array(record({ pauseMs: integer({ min: 0, max: 700 }), key: constantFrom("a", "b") }), {
  maxLength: 200,
});

describe("a fixed window", () => {
  test("admits as many requests as its limit, then returns the time until it ends", () => {
    const windows = new FixedWindows({ count: 3, perMs: 60_000 });
    expect([0, 1, 2].map((nowMs) => windows.take("a", nowMs))).toEqual([0, 0, 0]);
    expect(windows.isUsedUp("a", 20_000)).toBe(true);
    expect(windows.take("a", 20_000)).toBe(40_000);
    expect(windows.take("b", 20_000)).toBe(0);
    expect(windows.isUsedUp("a", 60_000)).toBe(false);
    expect(windows.take("a", 60_000)).toBe(0);
  });

  test("admits everything if its limit is 0", () => {
    const windows = new FixedWindows({ count: 0, perMs: 60_000 });
    const waits = Array.from({ length: 1_000 }, () => windows.take("a", 0));
    expect(new Set(waits)).toEqual(new Set([0]));
    expect(windows.isUsedUp("a", 0)).toBe(false);
  });

  test("admits its limit for each key, and after the returned wait it admits the next request", () => {
    assert(
      property(integer({ min: 1, max: 5 }), PAUSES, (count, requests) => {
        const windows = new FixedWindows({ count, perMs: PER_MS });
        const expected = new Map<string, { begunAtMs: number; counted: number }>();
        let nowMs = 0;
        for (const { pauseMs, key } of requests) {
          nowMs += pauseMs;
          const last = expected.get(key);
          const current =
            last !== undefined && nowMs < last.begunAtMs + PER_MS ? last : { begunAtMs: nowMs, counted: 0 };
          expect(windows.isUsedUp(key, nowMs)).toBe(current.counted >= count);
          current.counted += 1;
          expected.set(key, current);
          const waitMs = current.counted <= count ? 0 : current.begunAtMs + PER_MS - nowMs;
          expect(windows.take(key, nowMs)).toBe(waitMs);
          expect(windows.counted(key, nowMs)).toBe(current.counted);
          expect(windows.isUsedUp(key, nowMs + PER_MS)).toBe(false);
        }
      }),
    );
  });

  test("keeps a bounded number of keys, the busy ones among them", () => {
    const windows = new FixedWindows({ count: 2, perMs: 3_600_000 }, 100);
    for (let key = 0; key < 1_000; key += 1) {
      windows.take(String(key), 0);
      windows.take("busy", 0);
    }
    const kept = Array.from({ length: 1_000 }, (_, key) => windows.counted(String(key), 0));
    expect(kept.filter((counted) => counted > 0)).toHaveLength(99);
    expect(windows.counted("busy", 0)).toBe(1_000);
    expect(windows.take("0", 0)).toBe(0);
    windows.set("1", 2, 10);
    expect([windows.isUsedUp("1", 9), windows.isUsedUp("1", 10)]).toEqual([true, false]);
    windows.forget("busy");
    expect(windows.take("busy", 0)).toBe(0);
  });
});

describe("a sliding window", () => {
  test("never admits more than any of its limits, and the returned wait is exact", () => {
    const limits: readonly WindowLimit[] = [
      { count: 3, perMs: PER_MS },
      { count: 5, perMs: 3 * PER_MS },
    ];
    assert(
      property(array(integer({ min: 0, max: 700 }), { maxLength: 100 }), (pauses) => {
        const window = new SlidingWindow(limits, 1);
        const admitted: number[] = [];
        let nowMs = 0;
        for (const pauseMs of pauses) {
          nowMs += pauseMs;
          const waitMs = window.take("a", nowMs);
          const early = waitMs === 0 ? 0 : window.take("a", nowMs + waitMs - 1);
          const late = waitMs === 0 ? 0 : window.take("a", nowMs + waitMs);
          expect([early, late]).toEqual([Math.min(1, waitMs), 0]);
          nowMs += waitMs;
          admitted.push(nowMs);
        }
        for (const { count, perMs } of limits) {
          const tooMany = admitted.filter(
            (atMs, index) => atMs - (admitted[index - count] ?? -perMs) < perMs,
          );
          expect(tooMany).toEqual([]);
        }
      }),
    );
  });

  test("keeps a bounded number of keys; the least recently used one starts again", () => {
    const window = new SlidingWindow([{ count: 1, perMs: PER_MS }], 2);
    expect(["a", "b", "a"].map((key) => window.take(key, 0))).toEqual([0, 0, PER_MS]);
    expect(window.take("c", 0)).toBe(0);
    expect([window.take("a", 0), window.take("b", 0)]).toEqual([PER_MS, 0]);
  });
});
