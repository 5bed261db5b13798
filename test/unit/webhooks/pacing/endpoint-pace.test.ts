import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EndpointPace, PACE_WAIT_MAX_MS } from "#webhooks/pacing/endpoint-pace.ts";

const NOW = 1_700_000_000_000;

describe("the pace of a failing endpoint", () => {
  test("starts runs in turn, each after the attempts of the previous one", () => {
    const pace = new EndpointPace(100);
    expect(pace.reserve("ep_a", "run1", 50, NOW)).toBe(0);
    expect(pace.reserve("ep_a", "run2", 10, NOW)).toBe(500);
    expect(pace.reserve("ep_a", "run3", 10, NOW)).toBe(600);
  });

  test("is separate for each endpoint", () => {
    const pace = new EndpointPace(100);
    pace.reserve("ep_a", "run1", 1_000, NOW);
    expect(pace.reserve("ep_b", "run2", 1_000, NOW)).toBe(0);
  });

  test("is forgotten while there are no attempts", () => {
    const pace = new EndpointPace(100);
    pace.reserve("ep_a", "run1", 100, NOW);
    expect(pace.reserve("ep_a", "run2", 1, NOW + 1_000)).toBe(0);
  });

  test("keeps its promise to a run that was sent away, once", () => {
    const pace = new EndpointPace(100);
    pace.reserve("ep_a", "run1", 300, NOW);
    const waitMs = pace.reserve("ep_a", "run2", 100, NOW);
    expect(waitMs).toBe(3_000);
    pace.reserve("ep_a", "run3", 100, NOW);
    expect(pace.reserve("ep_a", "run2", 100, NOW + waitMs)).toBe(0);
    expect(pace.reserve("ep_a", "run2", 100, NOW + waitMs)).toBe(2_000);
  });

  test("lets a run that returns early wait for the rest, and never sends it away twice", () => {
    const pace = new EndpointPace(100);
    pace.reserve("ep_a", "run1", 5_000, NOW);
    pace.reserve("ep_a", "run2", 100, NOW);
    expect(pace.reserve("ep_a", "run2", 100, NOW + 10)).toBe(PACE_WAIT_MAX_MS);
  });

  test("is never exceeded by runs that obey it", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000 }),
        fc.array(
          fc.record({
            attempts: fc.integer({ min: 1, max: 64 }),
            afterMs: fc.integer({ min: 0, max: 3_000 }),
          }),
          {
            minLength: 1,
            maxLength: 50,
          },
        ),
        (perSecond, runs) => {
          const pace = new EndpointPace(perSecond);
          let nowMs = NOW;
          let freeAtMs = 0;
          for (const [index, { attempts, afterMs }] of runs.entries()) {
            nowMs += afterMs;
            const startMs = nowMs + pace.reserve("ep_a", `run${index}`, attempts, nowMs);
            expect(startMs).toBeGreaterThanOrEqual(freeAtMs - 1);
            freeAtMs = Math.max(nowMs, freeAtMs) + (attempts * 1_000) / perSecond;
          }
        },
      ),
    );
  });
});
