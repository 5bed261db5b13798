import { describe, expect, test } from "vitest";
import { networksOf } from "#http/rate-limits/address-key.ts";
import { FailureLimiter } from "#http/rate-limits/failure-limiter.ts";
import { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import { NarrowGate } from "#http/rate-limits/narrow-gate.ts";

describe("checks beyond a limit", () => {
  const narrow = (): NarrowGate => new NarrowGate("token_failures");

  function held(): { readonly promise: Promise<void>; readonly resolve: () => void } {
    let resolve = (): void => undefined;
    const promise = new Promise<void>((done) => {
      resolve = done;
    });
    return { promise, resolve };
  }

  test("run one at a time per key, in order, whether they fail or not; other keys do not wait", async () => {
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

  test("wait in a queue of bounded length; beyond it the answer is 429", async () => {
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

  let nowMs = 0;
  const limiterOf = (count: number): FailureLimiter =>
    new FailureLimiter({ count, limit: "token_failures", detail: "Too many.", monotonic: () => nowMs });

  /** Records failures within the limit. */
  function failed(limiter: FailureLimiter, times: number): void {
    for (let time = 0; time < times; time += 1) {
      expect(limiter.failed(networksOf("a"))).toBeUndefined();
    }
  }

  /** Returns the seconds to wait in the answer to one more failure. */
  function waitOf(limiter: FailureLimiter): number {
    return Number(limiter.failed(networksOf("a"))?.headers["retry-after"]);
  }

  test("are tolerated ten times within five minutes, then the wait doubles up to a quarter of an hour", () => {
    const limiter = limiterOf(FAILURES);
    failed(limiter, FAILURES);
    const waits: number[] = [];
    for (let request = 0; request < 9; request += 1) {
      waits.push(waitOf(limiter));
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 320, 640, 900, 900]);
    expect(limiter.failed(networksOf("b"))).toBeUndefined();
  });

  test("are forgotten after five minutes", () => {
    const limiter = limiterOf(FAILURES);
    failed(limiter, FAILURES - 1);
    nowMs += 300_000;
    failed(limiter, FAILURES - 1);
  });

  test("get one try after a wait, and the next failure starts a wait twice as long", () => {
    const limiter = limiterOf(FAILURES);
    failed(limiter, FAILURES);
    expect(waitOf(limiter)).toBe(10);
    nowMs += 10_000;
    failed(limiter, 1);
    expect(waitOf(limiter)).toBe(20);
    nowMs += 20_000;
    failed(limiter, 1);
    expect(waitOf(limiter)).toBe(40);
  });

  test("are cleared by a success", () => {
    const limiter = limiterOf(FAILURES);
    failed(limiter, FAILURES);
    expect(waitOf(limiter)).toBe(10);
    limiter.succeeded(networksOf("a"));
    failed(limiter, FAILURES);
  });

  test.each([
    [56, 4, "2001:db8:1:200", "2001:db8:1:300"],
    [48, 16, "2001:db8:2", "2001:db8:3"],
  ])(
    "from the networks of one /%i are tolerated %i times as often as from one host",
    (bits, hosts, site, other) => {
      const limiter = limiterOf(FAILURES);
      const from = (network: number, of = site): ReturnType<FailureLimiter["failed"]> =>
        limiter.failed(
          networksOf(
            bits === 48
              ? `${of}:${network.toString(16)}00::1`
              : `${of.slice(0, -2)}${(network + 16).toString(16)}::1`,
          ),
        );
      for (let network = 0; network < hosts * FAILURES; network += 1) {
        expect(from(network)).toBeUndefined();
      }
      expect(from(hosts * FAILURES)?.code).toBe("RATE_LIMITED");
      expect(from(0, other)).toBeUndefined();
    },
  );

  test("are unlimited without a limit", () => {
    const limiter = limiterOf(0);
    failed(limiter, 1_000);
  });

  test("beyond the limit serialize checks instead of blocking them, until a success", async () => {
    const limiter = limiterOf(1);
    failed(limiter, 1);
    let running = 0;
    const check = async (): Promise<number> => {
      running += 1;
      const together = running;
      await Promise.resolve();
      running -= 1;
      return together;
    };
    const checkThrice = async (): Promise<number[]> =>
      await Promise.all(Array.from({ length: 3 }, async () => await limiter.check(networksOf("a"), check)));
    expect(await checkThrice()).toEqual([1, 1, 1]);
    limiter.succeeded(networksOf("a"));
    expect(await checkThrice()).toEqual([1, 2, 3]);
  });
});

test("failed look-ups count against their address, while existing items are still found", async () => {
  let nowMs = 0;
  const lookups = new FruitlessLookups(2, () => nowMs);
  const miss = async (address: string): Promise<unknown> =>
    await lookups.find(address, async () => await Promise.resolve(undefined));
  expect([await miss("192.0.2.1"), await miss("192.0.2.1")]).toEqual([undefined, undefined]);
  nowMs = 20_000;
  await expect(miss("192.0.2.1")).rejects.toMatchObject({
    code: "RATE_LIMITED",
    headers: { "retry-after": "40" },
  });
  expect(await lookups.find("192.0.2.1", async () => await Promise.resolve("found"))).toBe("found");
  expect(await miss("192.0.2.2")).toBeUndefined();
  nowMs = 60_000;
  expect(await miss("192.0.2.1")).toBeUndefined();
});

test("a site with many networks of IPv6 gets 16 times the look-ups of one host, and costs its neighbours none", async () => {
  const lookups = new FruitlessLookups(2, () => 0);
  const miss = async (address: string): Promise<unknown> =>
    await lookups.find(address, async () => await Promise.resolve(undefined));
  for (let network = 0; network < 32; network += 1) {
    expect(await miss(`2001:db8:1:${network.toString(16)}00::1`)).toBeUndefined();
  }
  await expect(miss("2001:db8:1:ffff::1")).rejects.toMatchObject({ code: "RATE_LIMITED" });
  expect(await lookups.find("2001:db8:1:ffff::2", async () => await Promise.resolve("found"))).toBe("found");
  expect(await miss("2001:db8:2::1")).toBeUndefined();
});
