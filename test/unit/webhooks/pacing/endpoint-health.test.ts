import { describe, expect, test } from "vitest";
import { EndpointHealth, type HealthOutcome } from "#webhooks/pacing/endpoint-health.ts";
import { EndpointSlots } from "#webhooks/pacing/endpoint-slots.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

const ok = (durationMs: number): HealthOutcome => ({ ok: true, timedOut: false, durationMs });
const failed = (durationMs: number): HealthOutcome => ({ ok: false, timedOut: false, durationMs });
const timedOut = (durationMs: number): HealthOutcome => ({ ok: false, timedOut: true, durationMs });

/** Notes that an endpoint has failed for ten seconds. */
function fails(health: EndpointHealth, endpointId: string, nowMs: number, tookMs = 5): void {
  health.noteOutcome(endpointId, failed(tookMs), nowMs - 10_000);
  health.noteOutcome(endpointId, failed(tookMs), nowMs);
}

describe("endpoint health", () => {
  test("an endpoint that fails or times out is slow for a minute, and healthy after a quick success", () => {
    const health = new EndpointHealth(() => 0);
    fails(health, "ep_a", 1_000);
    health.noteUnanswered("ep_b", 1_000);
    health.noteOutcome("ep_c", ok(20), 1_000);
    health.noteOutcome("ep_d", failed(1_500), 1_000);
    expect(health.slow(2_000).sort()).toEqual(["ep_a", "ep_b", "ep_d"]);
    expect(health.slow(62_000)).toEqual([]);
    health.noteOutcome("ep_b", ok(20), 3_000);
    expect(health.isSlow("ep_b", 3_001)).toBe(false);
  });

  test("an endpoint that fails quickly is not slow while attempts succeed now and then", () => {
    const health = new EndpointHealth(() => 0);
    for (let atMs = 1_000; atMs < 60_000; atMs += 1_000) {
      health.noteOutcome("ep_a", atMs % 10_000 === 0 ? ok(5) : failed(5), atMs);
      health.merge([], atMs);
      expect(health.slow(atMs)).toEqual([]);
    }
    expect(health.takeChanges()).toEqual([]);
  });

  test("an endpoint that fails quickly is slow after ten seconds, unless a minute lies between", () => {
    const health = new EndpointHealth(() => 0);
    for (const [atMs, slow] of [
      [1_000, []],
      [62_000, []],
      [71_000, []],
      [72_000, ["ep_a"]],
    ] as const) {
      health.noteOutcome("ep_a", failed(5), atMs);
      health.merge([], atMs);
      expect(health.slow(atMs), `${atMs}`).toEqual(slow);
    }
  });

  test("an endpoint that is slow stays so with each failure", () => {
    const health = new EndpointHealth(() => 0);
    health.noteUnanswered("ep_a", 1_000);
    health.noteOutcome("ep_a", failed(5), 50_000);
    expect(health.slow(109_000)).toEqual(["ep_a"]);
  });

  test("slow answers do not count against receivers while this process lags; failures do", () => {
    const health = new EndpointHealth(() => 400);
    health.noteUnanswered("ep_a", 1_000);
    health.noteOutcome("ep_b", ok(1_500), 1_000);
    health.noteOutcome("ep_c", failed(1_500), 1_000);
    expect(health.slow(1_001)).toEqual(["ep_c"]);
  });

  test("nothing counts against receivers right after this process was suspended", () => {
    const health = new EndpointHealth(() => 15_000);
    health.noteOutcome("ep_a", timedOut(15_500), 1_000);
    health.noteUnanswered("ep_b", 1_000);
    expect(health.slow(1_001)).toEqual([]);
  });

  test("workers share what they learn and what they unlearn", () => {
    const [mine, other] = [new EndpointHealth(() => 0), new EndpointHealth(() => 0)];
    fails(mine, "ep_a", 1_000, 40);
    other.merge(mine.takeChanges(), 1_000);
    expect(other.isSlow("ep_a", 1_001)).toBe(true);
    expect(other.latencyMs("ep_a")).toBe(40);
    expect(mine.takeChanges()).toEqual([]);
    mine.noteOutcome("ep_a", ok(5), 2_000);
    other.merge(mine.takeChanges(), 2_000);
    expect(other.isSlow("ep_a", 2_001)).toBe(false);
  });
});

describe("an endpoint is silent", () => {
  test("from its first request without an answer", () => {
    const health = new EndpointHealth(() => 0);
    expect(health.silentSinceMs("ep_a")).toBeUndefined();
    health.noteUnanswered("ep_a", 2_000);
    health.noteUnanswered("ep_a", 3_500);
    expect(health.silentSinceMs("ep_a")).toBe(1_000);
    health.noteOutcome("ep_a", timedOut(10_000), 11_000);
    expect(health.silentSinceMs("ep_a")).toBe(1_000);
  });

  test.each([
    ["a success", ok(1_500)],
    ["a quick success", ok(5)],
    ["a failure", failed(1_500)],
  ])("until an answer: %s", (_what, answer) => {
    const health = new EndpointHealth(() => 0);
    health.noteUnanswered("ep_a", 2_000);
    health.noteOutcome("ep_a", answer, 2_500);
    expect(health.silentSinceMs("ep_a")).toBeUndefined();
  });

  test("not since an earlier time, once it counted as healthy", () => {
    const health = new EndpointHealth(() => 0);
    health.noteOutcome("ep_a", timedOut(10_000), 11_000);
    health.noteUnanswered("ep_a", 100_000);
    expect(health.silentSinceMs("ep_a")).toBe(99_000);
  });
});

describe("slots of an endpoint", () => {
  test("are never held beyond the limit, and the next in line gets a released one", async () => {
    const slots = new EndpointSlots(2, time);
    expect(await slots.acquire("ep_a", "1", 10, 0)).toBe(0);
    expect(await slots.acquire("ep_a", "2", 10, 0)).toBe(0);
    const third = slots.acquire("ep_a", "3", 10, 0);
    slots.release("ep_a");
    expect(await third).toBe(0);
    expect(await slots.acquire("ep_a", "4", 10_000, 0)).toBeGreaterThan(0);
    expect(await slots.acquire("ep_b", "5", 10_000, 0)).toBe(0);
  });

  test("send long waiters away, each a step later than the last, by a minute at most", async () => {
    const slots = new EndpointSlots(2, time);
    await slots.acquire("ep_a", "a", 10_000, 0);
    await slots.acquire("ep_a", "b", 10_000, 0);
    const times = [];
    for (let count = 0; count < 12; count += 1) {
      times.push(await slots.acquire("ep_a", `${count}`, 10_000, 0));
    }
    expect(times.slice(0, 4)).toEqual([10_000, 15_000, 20_000, 25_000]);
    expect(times.slice(-2)).toEqual([60_000, 60_000]);
  });

  test("go to a returning attempt before new ones, without lengthening the queue", async () => {
    const slots = new EndpointSlots(1, time);
    await slots.acquire("ep_a", "holder", 10_000, 0);
    expect(await slots.acquire("ep_a", "early", 10_000, 0)).toBe(10_000);
    const fresh = slots.acquire("ep_a", "fresh", 100, 10_000);
    const back = slots.acquire("ep_a", "early", 100, 10_000);
    slots.release("ep_a");
    expect(await back).toBe(0);
    slots.release("ep_a");
    expect(await fresh).toBe(0);
  });
});
