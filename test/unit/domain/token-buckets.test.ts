import { array, assert, integer, property } from "fast-check";
import { expect, test } from "vitest";
import { TokenBuckets } from "#domain/token-buckets.ts";

test("a bucket gives its content at once, then one per fraction of a second, and returns the wait for the next", () => {
  const buckets = new TokenBuckets();
  const take = (atMs: number): number => buckets.take("a", 5, atMs);
  expect([take(0), take(0), take(0), take(0), take(0)]).toEqual([0, 0, 0, 0, 0]);
  expect(take(0)).toBe(200);
  expect(take(100)).toBe(100);
  expect(take(200)).toBe(0);
  expect(take(200)).toBe(200);
  expect(buckets.take("b", 5, 200)).toBe(0);
});

test("no period admits more than the rate plus one second's worth", () => {
  assert(
    property(
      integer({ min: 1, max: 50 }),
      array(integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 300 }),
      (perSecond, pauses) => {
        const buckets = new TokenBuckets();
        let nowMs = 0;
        let passed = 0;
        for (const pause of pauses) {
          nowMs += pause;
          const waitMs = buckets.take("a", perSecond, nowMs);
          passed += waitMs === 0 ? 1 : 0;
          expect(waitMs).toBeLessThanOrEqual(Math.ceil(1_000 / perSecond));
        }
        expect(passed).toBeLessThanOrEqual(perSecond + (nowMs * perSecond) / 1_000 + 1e-6);
      },
    ),
  );
});

test("a request that takes more than one leaves a debt for the next ones", () => {
  const buckets = new TokenBuckets();
  expect(buckets.take("a", 10, 0)).toBe(0);
  buckets.charge("a", 29);
  expect(buckets.left("a")).toBe(0);
  expect(buckets.take("a", 10, 0)).toBe(2_100);
  expect(buckets.take("a", 10, 2_099)).toBeGreaterThan(0);
  expect(buckets.take("a", 10, 2_101)).toBe(0);
});

test("a clock set back takes nothing, and the number of keys is bounded", () => {
  const buckets = new TokenBuckets(2);
  expect(buckets.take("a", 1, 1_000)).toBe(0);
  expect(buckets.take("a", 1, 0)).toBe(1_000);
  expect(buckets.take("a", 1, 1_000)).toBe(0);
  buckets.take("b", 1, 0);
  buckets.take("c", 1, 0);
  expect(buckets.take("a", 1, 1_000)).toBe(0);
});
