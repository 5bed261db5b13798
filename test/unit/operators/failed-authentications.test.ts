/** Whoever guesses at the operators' door waits longer each time, and nobody else waits. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { SignetError } from "../../../src/errors.ts";
import { createFailedAuthentications } from "../../../src/operators/failed-authentications.ts";

const MINUTE_MS = 60_000;

function setUp() {
  const clock = { ms: 1_000_000, now: () => clock.ms };
  const failures = createFailedAuthentications(clock);
  /** Seconds that the address has to wait. */
  const wait = (address = "a"): number => {
    try {
      failures.check(address);
      return 0;
    } catch (error) {
      const { status, headers } = error as SignetError;
      return status === 429 ? Number(headers["retry-after"]) : Number.NaN;
    }
  };
  const fail = (times: number, address = "a"): void => {
    for (let count = 0; count < times; count += 1) {
      failures.fail(address);
    }
  };
  return { clock, failures, wait, fail };
}

test("nine failures cost nothing, the tenth 5 seconds, and each one after the wait twice as much, up to 15 minutes", () => {
  const { clock, wait, fail } = setUp();
  fail(9);
  expect(wait()).toBe(0);
  const waits: number[] = [];
  for (let count = 0; count < 10; count += 1) {
    fail(1);
    waits.push(wait());
    clock.ms += wait() * 1_000;
    expect(wait()).toBe(0);
  }
  expect(waits).toEqual([5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
});

test("an address does not wait for another's failures", () => {
  const { wait, fail } = setUp();
  fail(20, "a");
  expect(wait("b")).toBe(0);
});

test("a success, or half an hour without a failure, starts anew", () => {
  const { clock, failures, wait, fail } = setUp();
  fail(12);
  failures.succeed("a");
  fail(9);
  expect(wait()).toBe(0);
  fail(1);
  clock.ms += 30 * MINUTE_MS;
  fail(9);
  expect(wait()).toBe(0);
});

test("whatever comes, the wait is whole seconds from 0 to 900", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 31 * MINUTE_MS }), { maxLength: 60 }), (pauses) => {
      const { clock, wait, fail } = setUp();
      for (const pause of pauses) {
        fail(1);
        expect(wait()).toBeGreaterThanOrEqual(0);
        expect(wait()).toBeLessThanOrEqual(900);
        expect(Number.isInteger(wait())).toBe(true);
        clock.ms += pause;
      }
    }),
  );
});

test("ten thousand other addresses push the oldest out, and memory does not grow", () => {
  const { wait, fail } = setUp();
  fail(10, "oldest");
  expect(wait("oldest")).toBe(5);
  for (let index = 0; index < 10_000; index += 1) {
    fail(1, `10.0.${index >> 8}.${index & 255}`);
  }
  expect(wait("oldest")).toBe(0);
});
