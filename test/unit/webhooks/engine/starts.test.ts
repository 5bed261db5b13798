import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Starts } from "../../../../src/webhooks/engine/starts.ts";
import { createLogger } from "../../../../src/observability/logger.ts";

const UNAVAILABLE = Object.assign(new Error("away"), { cause: Object.assign(new Error("14"), { code: 14 }) });
const NOT_FOUND = Object.assign(new Error("no such namespace"), { cause: { code: 5 } });

let started: number[];
let starts: Starts;

beforeEach(() => {
  vi.useFakeTimers();
  started = [];
  starts = new Starts({
    log: createLogger({ level: "silent" }),
    onStarted: (tookMs) => started.push(Math.round(tookMs)),
  });
});

afterEach(() => {
  vi.useRealTimers();
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
  it("is retried until accepted, and nothing is claimed meanwhile", async () => {
    const away = failing(5, UNAVAILABLE);
    await starts.begin("bat_a", 3, away.start);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(starts.pauseMs).toBeGreaterThan(0);
    expect(starts.membersUnderWay).toBe(3);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(away.calls).toBe(6);
    expect(started).toHaveLength(1);
    expect(starts.pauseMs).toBe(0);
    expect(starts.membersUnderWay).toBe(0);
  });

  it("is repeated after a timeout, while the first call is still open", async () => {
    let calls = 0;
    await starts.begin("bat_a", 1, async () => {
      calls += 1;
      return await (calls === 1 ? new Promise<void>(() => undefined) : Promise.resolve());
    });
    await vi.advanceTimersByTimeAsync(1_900);
    expect(calls).toBe(1);
    await vi.advanceTimersByTimeAsync(400);
    expect(calls).toBe(2);
    expect(started).toHaveLength(1);
  });

  it("is left to the sweep when a retry cannot help, and after the last one", async () => {
    const [refused, away] = [failing(9, NOT_FOUND), failing(1_000, UNAVAILABLE)];
    await starts.begin("bat_a", 1, refused.start);
    await starts.begin("bat_b", 1, away.start);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(refused.calls).toBe(1);
    expect(starts.membersUnderWay).toBe(1);
    await vi.advanceTimersByTimeAsync(70_000);
    expect(starts.membersUnderWay).toBe(0);
  });

  it("is not started twice at once", async () => {
    const [first, second] = [failing(3, UNAVAILABLE), failing(0, UNAVAILABLE)];
    await starts.begin("bat_a", 1, first.start);
    await starts.begin("bat_a", 1, second.start);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(second.calls).toBe(0);
    expect(started).toHaveLength(1);
  });

  it("is not retried once the process ends", async () => {
    const away = failing(1_000, UNAVAILABLE);
    await starts.begin("bat_a", 1, away.start);
    await vi.advanceTimersByTimeAsync(10);
    await starts.settle();
    const { calls } = away;
    await vi.advanceTimersByTimeAsync(10_000);
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
      await starts.begin(`bat_${carrier}`, 1, start);
    }
    const ninth = starts.begin("bat_8", 1, start);
    await vi.advanceTimersByTimeAsync(10);
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
    await starts.begin("bat_a", 1, failing(1, NOT_FOUND).start);
    await vi.advanceTimersByTimeAsync(50);
    expect(starts.pauseMs).toBeGreaterThan(0);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(starts.pauseMs).toBe(0);
  });
});
