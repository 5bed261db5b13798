import { beforeEach, describe, expect, it } from "vitest";
import { Starts } from "#webhooks/engine/starts.ts";
import { createLogger } from "#observability/logger.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

let time: SimulatedTime;

const UNAVAILABLE = Object.assign(new Error("away"), { cause: Object.assign(new Error("14"), { code: 14 }) });
const NOT_FOUND = Object.assign(new Error("no such namespace"), { cause: { code: 5 } });

let started: string[];
let starts: Starts;

/** Begins a start; its carrier is in `started` once it has succeeded. */
async function begin(carrier: string, start: () => Promise<void>): Promise<void> {
  const begun = await starts.begin(carrier, start);
  void begun.started.then((done) => done && started.push(carrier));
}

beforeEach(() => {
  time = new SimulatedTime();
  started = [];
  starts = new Starts(time, createLogger({ level: "silent" }));
});

/** A start that fails this many times, then succeeds. */
function failing(times: number, error: Error): { readonly start: () => Promise<void>; calls: number } {
  const counted = {
    calls: 0,
    start: async (): Promise<void> => {
      counted.calls += 1;
      if (counted.calls <= times) {
        throw error;
      }
    },
  };
  return counted;
}

describe("a failed start", () => {
  it("is retried until accepted, and retries are not claimed meanwhile", async () => {
    const away = failing(5, UNAVAILABLE);
    await begin("bat_a", away.start);
    await time.advance(1_000);
    expect(starts.pauseMs).toBeGreaterThan(0);
    expect(started).toEqual([]);
    await time.advance(5_000);
    expect(away.calls).toBe(6);
    expect(started).toEqual(["bat_a"]);
    expect(starts.pauseMs).toBe(0);
  });

  it("is repeated within two seconds if its connection is replaced meanwhile", async () => {
    let calls = 0;
    await begin("bat_a", async () => {
      calls += 1;
      await (calls === 1 ? new Promise<never>(() => undefined) : Promise.resolve());
    });
    await time.advance(3_000);
    expect(calls).toBe(1);
    starts.reconnected();
    expect(starts.pauseMs).toBe(0);
    await time.advance(2_000);
    expect(calls).toBe(2);
    expect(started).toEqual(["bat_a"]);
  });

  it("is not repeated while the call is under way, and counts when it is answered late", async () => {
    let calls = 0;
    let answer = (): void => undefined;
    await begin("bat_a", async () => {
      calls += 1;
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
    });
    await time.advance(9_000);
    expect(calls).toBe(1);
    expect(starts.pauseMs).toBeGreaterThan(0);
    answer();
    await time.advance(1_000);
    expect(calls).toBe(1);
    expect(started).toEqual(["bat_a"]);
  });

  it("is repeated after ten seconds without an answer: the connection may be dead", async () => {
    let calls = 0;
    await begin("bat_a", async () => {
      calls += 1;
      return await (calls === 1 ? new Promise<void>(() => undefined) : Promise.resolve());
    });
    await time.advance(14_000);
    expect(calls).toBe(2);
    expect(started).toEqual(["bat_a"]);
  });

  it("is left to the sweep when a retry cannot help, and after the last one", async () => {
    const [refused, away] = [failing(9, NOT_FOUND), failing(1_000, UNAVAILABLE)];
    await begin("bat_a", refused.start);
    await begin("bat_b", away.start);
    await time.advance(1_000);
    expect(refused.calls).toBe(1);
    await time.advance(70_000);
    const { calls } = away;
    await time.advance(70_000);
    expect(away.calls).toBe(calls);
    expect(started).toEqual([]);
  });

  it("is not started twice at once", async () => {
    const [first, second] = [failing(3, UNAVAILABLE), failing(0, UNAVAILABLE)];
    await begin("bat_a", first.start);
    await begin("bat_a", second.start);
    await time.advance(5_000);
    expect(second.calls).toBe(0);
    expect(started).toEqual(["bat_a"]);
  });

  it("is not retried once the process ends", async () => {
    const away = failing(1_000, UNAVAILABLE);
    await begin("bat_a", away.start);
    await time.advance(10);
    starts.stop();
    await starts.settle();
    const { calls } = away;
    // Nor is another one tried, while Temporal is known to be unavailable.
    await begin("bat_b", away.start);
    await time.advance(10_000);
    expect(away.calls).toBe(calls);
  });
});

describe("starts", () => {
  it("are at most eight at once; the next one waits for room", async () => {
    let running = 0;
    const release: (() => void)[] = [];
    const start = async (): Promise<void> => {
      running += 1;
      await new Promise<void>((resolve) => release.push(resolve));
      running -= 1;
    };
    for (let carrier = 0; carrier < 8; carrier += 1) {
      await begin(`bat_${carrier}`, start);
    }
    const ninth = begin("bat_8", start);
    await time.advance(10);
    expect(running).toBe(8);
    release[0]?.();
    await ninth;
    expect(running).toBe(8);
    for (const end of release) {
      end();
    }
    await starts.settle();
    expect(running).toBe(0);
  });
});

describe("an abandoned start", () => {
  it("does not keep the lanes from claiming forever", async () => {
    await begin("bat_a", failing(1, NOT_FOUND).start);
    await time.advance(50);
    expect(starts.pauseMs).toBeGreaterThan(0);
    await time.advance(5_000);
    expect(starts.pauseMs).toBe(0);
  });
});

describe("a start that is not urgent", () => {
  it("waits until few others are in progress; urgent ones do not wait for it", async () => {
    const ends: (() => void)[] = [];
    const open = async (): Promise<void> => await new Promise((resolve) => ends.push(resolve));
    await starts.begin("bat_a", open);
    await starts.begin("bat_b", open, 2);
    const waiting = starts.begin("bat_c", open, 2);
    await starts.begin("bat_d", open);
    expect(ends).toHaveLength(3);
    ends[0]?.();
    ends[2]?.();
    await waiting;
    expect(ends).toHaveLength(4);
  });
});
