import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type KeyTimes,
  nextActivation,
  PREPARED_BEFORE_MS,
  PUBLISHED_AFTER_MS,
  PUBLISHED_BEFORE_MS,
  SIGNING_PERIOD_MS,
  statesAt,
} from "#tokens/signing-keys/lifecycle.ts";

const T = 1_763_650_000_000;
const key = (kid: string, activatedAt: number, more: Partial<KeyTimes> = {}): KeyTimes => ({
  kid,
  activatedAt,
  retiredAt: null,
  revokedAt: null,
  ...more,
});

test("a key waits, signs, stays published for an hour and disappears, all without a write", () => {
  const keys = [key("old", T - SIGNING_PERIOD_MS), key("new", T)];
  expect(Object.fromEntries(statesAt(keys, T - 1))).toEqual({ old: "CURRENT", new: "NEXT" });
  expect(Object.fromEntries(statesAt(keys, T))).toEqual({ old: "PREVIOUS", new: "CURRENT" });
  expect(statesAt(keys, T + PUBLISHED_AFTER_MS - 1).get("old")).toBe("PREVIOUS");
  expect(statesAt(keys, T + PUBLISHED_AFTER_MS).get("old")).toBe("GONE");
});

test("a revoked key disappears, and does not retire its predecessor", () => {
  const keys = [key("old", T - 1_000), key("bad", T, { revokedAt: T + 500 })];
  expect(Object.fromEntries(statesAt(keys, T + 1_000))).toEqual({ old: "CURRENT", bad: "GONE" });
});

test("a key recorded as retired does not sign again", () => {
  const states = statesAt([key("old", T - 1_000, { retiredAt: T })], T + 1);
  expect(states.get("old")).toBe("PREVIOUS");
});

describe("the next key", () => {
  test("is created a day before it is due", () => {
    const dueAt = T + SIGNING_PERIOD_MS;
    expect(nextActivation(T, dueAt - PREPARED_BEFORE_MS - 1)).toBeUndefined();
    expect(nextActivation(T, dueAt - PREPARED_BEFORE_MS)).toBe(dueAt);
  });

  test("is published for an hour even if it comes late", () => {
    const late = T + 3 * SIGNING_PERIOD_MS;
    expect(nextActivation(T, late)).toBe(late + PUBLISHED_BEFORE_MS);
  });
});

test("at all times at most one key signs, and a key that has just signed is published", () => {
  const times = fc.array(fc.integer({ min: 0, max: 200 * 3_600_000 }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(times, fc.integer({ min: 0, max: 210 * 3_600_000 }), (activations, at) => {
      const keys = [...new Set(activations)].map((time) => key(String(time), T + time));
      const signing = (now: number): string[] =>
        [...statesAt(keys, now)].filter(([, state]) => state === "CURRENT").map(([kid]) => kid);
      const [signer] = signing(T + at);
      expect(signing(T + at)).toHaveLength(keys.some(({ activatedAt }) => activatedAt <= T + at) ? 1 : 0);
      const later = statesAt(keys, T + at + PUBLISHED_AFTER_MS - 1);
      expect(later.get(signer ?? "nobody")).not.toBe("GONE");
    }),
  );
});
