/** The library that counts takes the time from the system: its clock is moved for these tests alone. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createFailureLimiter } from "../../../src/rate-limits/failure-limiter.ts";
import { BoundedLimiter, createRateLimiter } from "../../../src/rate-limits/rate-limiter.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("a rate", () => {
  test("lets as many pass as it says, then says when the window ends", async () => {
    const limiter = createRateLimiter({ count: 3, perSeconds: 60 });
    for (let request = 0; request < 3; request += 1) {
      expect(await limiter.take("a")).toBe(0);
    }
    vi.advanceTimersByTime(20_000);
    expect(await limiter.take("a")).toBe(40_000);
    expect(await limiter.take("b")).toBe(0);
    vi.advanceTimersByTime(40_000);
    expect(await limiter.take("a")).toBe(0);
  });

  test("of 0 is no limit", async () => {
    const limiter = createRateLimiter({ count: 0, perSeconds: 60 });
    const waits = await Promise.all(Array.from({ length: 1_000 }, async () => await limiter.take("a")));
    expect(new Set(waits)).toEqual(new Set([0]));
  });
});

test("however many keys are made up, a bounded number is remembered, the busy ones among them", async () => {
  const limiter = new BoundedLimiter({ count: 2, perSeconds: 3_600 }, 100);
  for (let key = 0; key < 1_000; key += 1) {
    await limiter.add(String(key));
    await limiter.add("busy");
  }
  expect(limiter.size).toBe(100);
  expect(await limiter.add("busy")).toMatchObject({ within: false });
  expect(await limiter.add("0")).toMatchObject({ within: true, counted: 1 });
});

describe("failures", () => {
  const FAILURES = 10;

  async function failed(limiter: ReturnType<typeof createFailureLimiter>, times: number): Promise<void> {
    for (let time = 0; time < times; time += 1) {
      expect(await limiter.refuse("a")).toBe(0);
      await limiter.failed("a");
    }
  }

  test("are borne ten times within five minutes, then the wait doubles up to a quarter of an hour", async () => {
    const limiter = createFailureLimiter(FAILURES);
    await failed(limiter, FAILURES);
    const waits: number[] = [];
    for (let request = 0; request < 9; request += 1) {
      waits.push((await limiter.refuse("a")) / 1_000);
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 320, 640, 900, 900]);
    expect(await limiter.refuse("b")).toBe(0);
  });

  test("are forgotten after five minutes", async () => {
    const limiter = createFailureLimiter(FAILURES);
    await failed(limiter, FAILURES - 1);
    vi.advanceTimersByTime(300_000);
    await failed(limiter, FAILURES - 1);
  });

  test("after a wait there is one try, and its failure starts the next wait, twice as long", async () => {
    const limiter = createFailureLimiter(FAILURES);
    await failed(limiter, FAILURES);
    expect(await limiter.refuse("a")).toBe(10_000);
    vi.advanceTimersByTime(10_000);
    await failed(limiter, 1);
    expect(await limiter.refuse("a")).toBe(20_000);
    vi.advanceTimersByTime(20_000);
    await failed(limiter, 1);
    expect(await limiter.refuse("a")).toBe(40_000);
  });

  test("a success clears the account", async () => {
    const limiter = createFailureLimiter(FAILURES);
    await failed(limiter, FAILURES);
    await limiter.refuse("a");
    vi.advanceTimersByTime(10_000);
    expect(await limiter.refuse("a")).toBe(0);
    await limiter.succeeded("a");
    await failed(limiter, FAILURES - 1);
    expect(await limiter.refuse("a")).toBe(0);
  });

  test("without a limit nobody is refused", async () => {
    const limiter = createFailureLimiter(0);
    await failed(limiter, 1_000);
  });
});
