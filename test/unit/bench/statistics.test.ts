import { describe, expect, it } from "vitest";
import { Arrivals } from "#test/bench/load/arrivals.ts";
import { flowStatistics } from "#test/bench/measure/statistics.ts";

function published(...events: readonly (readonly [started: number, acked: number, status: number])[]): {
  started: Float64Array;
  acked: Float64Array;
  status: Uint16Array;
  repeated: Record<number, number>;
} {
  return {
    started: Float64Array.from(events, ([started]) => started),
    acked: Float64Array.from(events, ([, acked]) => acked),
    status: Uint16Array.from(events, ([, , status]) => status),
    repeated: {},
  };
}

describe("the bench's figures", () => {
  it("count accepted events without an acknowledgement as lost, and those acknowledged twice as duplicates", () => {
    const arrivals = new Arrivals("00000000", 4, 1);
    for (const [index, atMs] of [
      [0, 1_010],
      [1, 1_050],
      [1, 1_090],
    ] as const) {
      arrivals.acknowledged(arrivals.arrived(index, 0, atMs).slot, atMs);
    }
    // Arrived, but answered with an error: still owed.
    arrivals.arrived(2, 0, 1_100);
    const statistics = flowStatistics({
      published: published(
        [1_000, 1_005, 202],
        [1_000, 1_005, 202],
        [1_000, 1_005, 202],
        [1_000, 1_004, 429],
      ),
      arrivals: arrivals.report,
      from: 0,
      slots: 1,
    });
    expect(statistics).toMatchObject({
      accepted: 3,
      refused: 1,
      refusals: { 429: 1 },
      lost: 1,
      duplicated: 1,
    });
    expect(statistics.attempts).toBe(4);
    expect(statistics.seconds).toBeCloseTo(0.1);
    expect(statistics.latencyMs).toEqual({ p50: 50, p95: 100, p99: 100, max: 100 });
  });

  it("expect an event at each of its endpoints", () => {
    const arrivals = new Arrivals("00000000", 3, 2);
    arrivals.acknowledged(arrivals.arrived(2, 10, 1_020).slot, 1_020);
    const statistics = flowStatistics({
      published: published([1_000, 1_001, 202]),
      arrivals: arrivals.report,
      from: 2,
      slots: 2,
    });
    expect(statistics).toMatchObject({ deliveries: 2, lost: 1 });
    arrivals.acknowledged(arrivals.arrived(2, 11, 1_030).slot, 1_030);
    const complete = flowStatistics({
      published: published([1_000, 1_001, 202]),
      arrivals: arrivals.report,
      from: 2,
      slots: 2,
    });
    expect(complete).toMatchObject({ deliveries: 2, lost: 0, duplicated: 0 });
  });
});
