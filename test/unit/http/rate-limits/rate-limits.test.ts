/** The library that counts takes the time from the system: its clock is moved for these tests alone. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  createFailureLimiter,
  type FailureLimiter,
} from "../../../../src/http/rate-limits/failure-limiter.ts";
import { NarrowGate } from "../../../../src/http/rate-limits/narrow-gate.ts";
import { BoundedLimiter, createRateLimiter } from "../../../../src/http/rate-limits/rate-limiter.ts";

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

describe("checks beyond a limit", () => {
  const narrow = (): NarrowGate => new NarrowGate("token_failures");

  function held(): { readonly promise: Promise<void>; readonly resolve: () => void } {
    let resolve = (): void => undefined;
    const promise = new Promise<void>((done) => {
      resolve = done;
    });
    return { promise, resolve };
  }

  test("run one at a time for a key, in order, whether they fail or not; other keys do not wait", async () => {
    const gate = narrow();
    const order: string[] = [];
    const first = held();
    const run = async (key: string, name: string, until?: Promise<void>): Promise<void> =>
      await gate.run(key, async () => {
        order.push(name);
        await until;
        if (name === "second") {
          throw new Error(name);
        }
      });
    const all = [run("a", "first", first.promise), run("a", "second"), run("a", "third")];
    await run("b", "other");
    expect(order).toEqual(["first", "other"]);
    first.resolve();
    expect((await Promise.allSettled(all)).map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    expect(order).toEqual(["first", "other", "second", "third"]);
  });

  test("wait in a line of bounded length; beyond it the answer is 429", async () => {
    const gate = narrow();
    const { promise, resolve } = held();
    const all = Array.from({ length: 70 }, async () => await gate.run("a", async () => await promise));
    resolve();
    const ends = await Promise.allSettled(all);
    expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(65);
    expect(ends.at(-1)).toMatchObject({ status: "rejected", reason: { code: "RATE_LIMITED" } });
    expect(await gate.run("a", async () => await Promise.resolve(1))).toBe(1);
  });
});

describe("failures", () => {
  const FAILURES = 10;

  const limiterOf = (count: number): FailureLimiter =>
    createFailureLimiter({ count, limit: "token_failures", detail: "Too many." });

  /** Failures that are answered as such. */
  async function failed(limiter: FailureLimiter, times: number): Promise<void> {
    for (let time = 0; time < times; time += 1) {
      expect(await limiter.failed("a")).toBeUndefined();
    }
  }

  /** Seconds that the answer to one failure more asks for. */
  async function waitOf(limiter: FailureLimiter): Promise<number> {
    return Number((await limiter.failed("a"))?.headers["retry-after"]);
  }

  test("are borne ten times within five minutes, then the wait doubles up to a quarter of an hour", async () => {
    const limiter = limiterOf(FAILURES);
    await failed(limiter, FAILURES);
    const waits: number[] = [];
    for (let request = 0; request < 9; request += 1) {
      waits.push(await waitOf(limiter));
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 320, 640, 900, 900]);
    expect(await limiter.failed("b")).toBeUndefined();
  });

  test("are forgotten after five minutes", async () => {
    const limiter = limiterOf(FAILURES);
    await failed(limiter, FAILURES - 1);
    vi.advanceTimersByTime(300_000);
    await failed(limiter, FAILURES - 1);
  });

  test("after a wait there is one try, and its failure starts the next wait, twice as long", async () => {
    const limiter = limiterOf(FAILURES);
    await failed(limiter, FAILURES);
    expect(await waitOf(limiter)).toBe(10);
    vi.advanceTimersByTime(10_000);
    await failed(limiter, 1);
    expect(await waitOf(limiter)).toBe(20);
    vi.advanceTimersByTime(20_000);
    await failed(limiter, 1);
    expect(await waitOf(limiter)).toBe(40);
  });

  test("a success clears the account", async () => {
    const limiter = limiterOf(FAILURES);
    await failed(limiter, FAILURES);
    expect(await waitOf(limiter)).toBe(10);
    await limiter.succeeded("a");
    await failed(limiter, FAILURES);
  });

  test("without a limit nobody is refused", async () => {
    const limiter = limiterOf(0);
    await failed(limiter, 1_000);
  });
});
