import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RateLimitQueues, LATE_MS, nextChecks } from "#webhooks/pacing/rate-limit-queues.ts";
import type { Reservation } from "#domain/reservation.ts";
import { createLineModel } from "#test/support/line-model.ts";
import { cases } from "#test/support/properties.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

const NOW = 1_700_000_000_000;
const SECOND = 1_000;

function setUp() {
  const clock = { nowMs: NOW };
  const model = createLineModel();
  const asked: number[] = [];
  const worker = (): RateLimitQueues =>
    new RateLimitQueues({
      timers: time,
      takeTurns: async (requests, nowMs) => {
        asked.push(requests.length);
        return model(requests, nowMs);
      },
      clock: { now: () => clock.nowMs },
    });
  return { clock, asked, worker, queues: worker() };
}

async function reserve(
  queues: RateLimitQueues,
  attempt: string,
  {
    endpointId = "ep_a",
    rateLimit = 10,
    kept,
  }: { endpointId?: string; rateLimit?: number; kept?: Reservation } = {},
): Promise<Reservation> {
  return await queues.reserve({ endpointId, rateLimit, attempt, kept });
}

/** Returns the largest number of instants within a second. */
function mostInASecond(instants: readonly number[]): number {
  const sorted = instants.toSorted((a, b) => a - b);
  return Math.max(
    0,
    ...sorted.map((from, index) => sorted.findLastIndex((at) => at < from + SECOND) - index + 1),
  );
}

describe("the queue of an endpoint with a rate limit", () => {
  test("assigns instants one after the other, from now on, in the order of the requests", async () => {
    const { queues } = setUp();
    const reservations = await Promise.all(
      ["a", "b", "c"].map(async (attempt) => await reserve(queues, attempt)),
    );
    expect(reservations.map(({ atMs }) => atMs - NOW)).toEqual([0, 100, 200]);
  });

  test("makes one database query for all concurrent requests, for any endpoints", async () => {
    const { queues, asked } = setUp();
    await Promise.all(
      Array.from(
        { length: 64 },
        async (_, index) => await reserve(queues, `run${index}`, { endpointId: `ep_${index % 3}` }),
      ),
    );
    expect(asked).toEqual([3]);
  });

  test("is separate for each endpoint", async () => {
    const { queues } = setUp();
    await Promise.all(["a", "b", "c"].map(async (attempt) => await reserve(queues, attempt)));
    expect((await reserve(queues, "d", { endpointId: "ep_b" })).atMs).toBe(NOW);
  });

  test("saves nothing up while there are no requests", async () => {
    const { queues, clock } = setUp();
    await reserve(queues, "a");
    clock.nowMs += 60_000;
    const reservations = await Promise.all(["b", "c"].map(async (attempt) => await reserve(queues, attempt)));
    expect(reservations.map(({ atMs }) => atMs - clock.nowMs)).toEqual([0, 100]);
  });

  test("keeps a returning attempt's instant, at any worker, without a query", async () => {
    const { queues, worker, clock, asked } = setUp();
    await reserve(queues, "a");
    const kept = await reserve(queues, "b");
    await reserve(queues, "c");
    clock.nowMs = kept.atMs;
    expect(await reserve(worker(), "b", { kept })).toBe(kept);
    clock.nowMs = kept.atMs + LATE_MS;
    expect(await reserve(worker(), "b", { kept })).toBe(kept);
    expect(asked).toHaveLength(3);
  });

  test("assigns the same instant to both requests of one attempt", async () => {
    const { queues } = setUp();
    const [one, other] = await Promise.all([reserve(queues, "a"), reserve(queues, "a")]);
    expect(await reserve(queues, "a")).toEqual(one);
    expect((await reserve(queues, "b")).atMs).toBeLessThanOrEqual(Math.max(one.atMs, other.atMs) + 100);
  });

  test("puts attempts that missed their instants before later ones, at the rate of the limit", async () => {
    const { queues, worker, clock } = setUp();
    const kept = await Promise.all(
      Array.from({ length: 100 }, async (_, index) => await reserve(queues, `run${index}`)),
    );
    clock.nowMs += 5_000;
    const missed = kept.slice(0, 20);
    const back = worker();
    const again = await Promise.all(
      missed.map(async (place, index) => await reserve(back, `run${index}`, { kept: place })),
    );
    expect(again.map(({ atMs }) => atMs - clock.nowMs)).toEqual(missed.map((_, index) => index * 100));
    // New ones wait behind all of them.
    expect((await reserve(back, "new")).atMs).toBe(NOW + 10_000 + 2_000);
  });

  test("restarts with another limit, which also applies to assigned instants", async () => {
    const { queues, clock } = setUp();
    const kept = await Promise.all(
      Array.from({ length: 50 }, async (_, index) => await reserve(queues, `run${index}`, { rateLimit: 1 })),
    );
    clock.nowMs += 1_000;
    const again = await Promise.all(
      kept
        .slice(2)
        .map(
          async (place, index) => await reserve(queues, `run${index + 2}`, { rateLimit: 100, kept: place }),
        ),
    );
    expect(again.map(({ atMs }) => atMs - clock.nowMs)).toEqual(again.map((_, index) => index * 10));
  });

  test("rejects when the database fails, and queries it again the next time", async () => {
    let fails = true;
    const model = createLineModel();
    const queues = new RateLimitQueues({
      timers: time,
      takeTurns: async (requests, nowMs) => {
        if (fails) {
          throw new Error("away");
        }
        return model(requests, nowMs);
      },
      clock: { now: () => NOW },
    });
    await expect(reserve(queues, "a")).rejects.toThrow("away");
    fails = false;
    expect((await reserve(queues, "a")).atMs).toBe(NOW);
  });

  test("is never exceeded by punctual attempts, and none waits longer than for those before it", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 1_000 }),
        fc.array(
          fc.record({
            attempts: fc.integer({ min: 1, max: 64 }),
            afterMs: fc.integer({ min: 0, max: 3_000 }),
            worker: fc.integer({ min: 0, max: 2 }),
          }),
          { minLength: 1, maxLength: 20 },
        ),
        async (rateLimit, runs) => {
          const { clock, worker } = setUp();
          const workers = [worker(), worker(), worker()];
          const instants: number[] = [];
          let before = 0;
          for (const [number, run] of runs.entries()) {
            clock.nowMs += run.afterMs;
            const queues = workers[run.worker] as RateLimitQueues;
            const reservations = await Promise.all(
              Array.from(
                { length: run.attempts },
                async (_, index) => await reserve(queues, `${number}/${index}`, { rateLimit }),
              ),
            );
            for (const { atMs } of reservations) {
              expect(atMs).toBeGreaterThanOrEqual(clock.nowMs);
              expect(atMs).toBeLessThanOrEqual(Math.max(clock.nowMs, before + 1_000 / rateLimit) + 2);
              before = atMs;
              instants.push(atMs);
            }
          }
          // Instants are whole milliseconds, rounded up.
          expect(mostInASecond(instants)).toBeLessThanOrEqual(rateLimit + 1);
        },
      ),
      cases(60),
    );
  });

  test("is exceeded by at most its own rate while late attempts catch up", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 100 }),
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: LATE_MS + 1, max: 20_000 }),
        async (rateLimit, attempts, lateMs) => {
          const { clock, queues, worker } = setUp();
          const kept = await Promise.all(
            Array.from(
              { length: attempts },
              async (_, index) => await reserve(queues, `${index}`, { rateLimit }),
            ),
          );
          clock.nowMs += lateMs;
          const back = worker();
          const again = await Promise.all(
            kept.map(async (place, index) => await reserve(back, `${index}`, { rateLimit, kept: place })),
          );
          const instants = again.map(({ atMs }) => atMs);
          expect(Math.min(...instants)).toBeGreaterThanOrEqual(clock.nowMs - LATE_MS);
          expect(mostInASecond(instants)).toBeLessThanOrEqual(2 * rateLimit + 2);
          // None is sent to the end: at most its own delay plus the time to catch up.
          expect(Math.max(...instants)).toBeLessThanOrEqual(
            Math.max(kept.at(-1)?.atMs ?? 0, clock.nowMs + (attempts * 1_000) / rateLimit) + 1,
          );
        },
      ),
      cases(60),
    );
  });
});

describe("the gate of a process", () => {
  test("starts attempts that were held up together one by one, a tenth faster than the limit", () => {
    const { queues, clock } = setUp();
    const waits = Array.from({ length: 12 }, () => queues.spacingMs("ep_a", 10));
    expect(waits[0]).toBe(0);
    expect(waits[11]).toBeCloseTo((11 * 1_000) / 11);
    expect(queues.spacingMs("ep_b", 10)).toBe(0);
    clock.nowMs += 2_000;
    expect(queues.spacingMs("ep_a", 10)).toBe(0);
  });
});

describe("the next check of waiting attempts", () => {
  const at = (inMs: number): Reservation => ({ atMs: NOW + inMs, rateLimit: 1 });
  const inMs = (reservations: readonly (Reservation | undefined)[]): (number | undefined)[] =>
    nextChecks(reservations, NOW).map((look) => (look === undefined ? undefined : look - NOW));

  test("comes shortly before a near instant", () => {
    expect(inMs([at(0), at(700), at(9_000)])).toEqual([0, 200, 8_500]);
  });

  test("comes for all together after a quarter of a long wait, and after five minutes at the latest", () => {
    expect(inMs([at(60_000), at(90_000)])).toEqual([14_500, 14_500]);
    expect(inMs([at(11_000)])).toEqual([9_500]);
    expect(inMs([at(36_000_000)])).toEqual([299_500]);
  });

  test("does not exist for attempts without a place", () => {
    expect(inMs([undefined, at(700), undefined])).toEqual([undefined, 200, undefined]);
  });
});
