import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { StartRate } from "../../../../src/webhooks/engine/start-rate.ts";

const PER_SECOND = 20;
const BURST = 3;
/** How long a start takes on an idle system, and on a heavily overloaded one. */
const IDLE_MS = 10;
const BUSY_MS = 500;

const rateOf = (perSecond = PER_SECOND, burst = BURST): StartRate => new StartRate({ perSecond, burst }, 0);

function takeAll(rate: StartRate, nowMs: number): number {
  let taken = 0;
  while (rate.take(nowMs)) {
    taken += 1;
  }
  return taken;
}

function learn(rate: StartRate, tookMs: number, times: number, alone = false): void {
  for (let time = 0; time < times; time += 1) {
    rate.learn(tookMs, alone);
  }
}

/** Returns a rate that has learned the duration of an idle system. */
function experienced(): StartRate {
  const rate = rateOf();
  learn(rate, IDLE_MS, 50, true);
  return rate;
}

describe("tokens", () => {
  it("begin with a burst, so that a single delivery starts at once", () => {
    const rate = rateOf();
    expect(rate.waitMs(0)).toBe(0);
    expect(takeAll(rate, 0)).toBe(BURST);
    expect(rate.waitMs(0)).toBe(1_000 / PER_SECOND);
  });

  it("come at the rate, and are saved up to the burst", () => {
    const rate = rateOf();
    takeAll(rate, 0);
    expect(takeAll(rate, 100)).toBe(2);
    expect(takeAll(rate, 3_600_000)).toBe(BURST);
  });

  it("can be returned unused, up to the burst", () => {
    const rate = rateOf();
    expect(rate.take(0)).toBe(true);
    rate.giveBack();
    rate.giveBack();
    expect(takeAll(rate, 0)).toBe(BURST);
  });

  it("never exceed burst plus rate, whatever the calls", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 500 }),
        fc.integer({ min: 1, max: 10 }),
        fc.array(fc.double({ min: 0, max: 400, noNaN: true }), { maxLength: 80 }),
        (perSecond, burst, pauses) => {
          const rate = rateOf(perSecond, burst);
          let [nowMs, taken] = [0, 0];
          for (const pause of pauses) {
            nowMs += pause;
            taken += takeAll(rate, nowMs);
            expect(taken).toBeLessThanOrEqual(burst + (nowMs / 1_000) * perSecond + 1e-6);
          }
        },
      ),
    );
  });

  it("are available when waitMs says so, and not over a millisecond before", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 500 }),
        fc.double({ min: 0, max: 5_000, noNaN: true }),
        (perSecond, nowMs) => {
          const [early, late] = [rateOf(perSecond), rateOf(perSecond)];
          takeAll(early, nowMs);
          takeAll(late, nowMs);
          const waitMs = late.waitMs(nowMs);
          expect(waitMs).toBeGreaterThan(0);
          expect(late.take(nowMs + waitMs + 1e-6)).toBe(true);
          expect(early.take(nowMs + waitMs - 1 - 1e-6)).toBe(false);
        },
      ),
    );
  });
});

describe("the share of a worker", () => {
  it("follows the number of live workers, and keeps what was learned", () => {
    const rate = experienced();
    learn(rate, BUSY_MS, 100);
    const before = rate.perSecond / PER_SECOND;
    rate.allow(PER_SECOND / 4);
    expect(rate.perSecond).toBeCloseTo((PER_SECOND / 4) * before);
    rate.allow(PER_SECOND);
    expect(rate.perSecond).toBeCloseTo(PER_SECOND * before);
  });

  it("is never exceeded by learning", () => {
    const rate = experienced();
    rate.allow(5);
    learn(rate, 0, 200);
    expect(rate.perSecond).toBeCloseTo(5);
  });
});

describe("learning", () => {
  it("changes nothing while starts are as fast as on an idle system", () => {
    const rate = experienced();
    learn(rate, IDLE_MS, 100);
    expect(rate.perSecond).toBe(PER_SECOND);
  });

  it("ignores a single slow start", () => {
    const rate = experienced();
    rate.learn(50, false);
    expect(rate.perSecond).toBe(PER_SECOND);
  });

  it("treats no start of a few milliseconds as slow, however fast an idle system is", () => {
    const rate = rateOf();
    learn(rate, 1, 50, true);
    learn(rate, 20, 100);
    expect(rate.perSecond).toBe(PER_SECOND);
  });

  it("lowers the rate under load, down to half", () => {
    const rate = experienced();
    learn(rate, BUSY_MS, 3);
    expect(rate.perSecond).toBeLessThan(PER_SECOND);
    learn(rate, BUSY_MS, 1_000);
    expect(rate.perSecond).toBe(PER_SECOND / 2);
  });

  it("raises it to the limit again when the load ends", () => {
    const rate = experienced();
    learn(rate, BUSY_MS, 1_000);
    learn(rate, IDLE_MS, 100);
    expect(rate.perSecond).toBe(PER_SECOND);
  });

  it("keeps the rate between half and all of the limit, whatever starts take", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.double({ min: 0, max: 60_000, noNaN: true }), fc.boolean()), { maxLength: 300 }),
        fc.integer({ min: 1, max: 500 }),
        (starts, perSecond) => {
          const rate = rateOf(perSecond);
          for (const [tookMs, alone] of starts) {
            rate.learn(tookMs, alone);
            expect(rate.perSecond).toBeGreaterThanOrEqual(perSecond / 2);
            expect(rate.perSecond).toBeLessThanOrEqual(perSecond);
          }
        },
      ),
    );
  });
});
