/** Figures out of what the publisher and the sink noted. */
import type { ArrivalReport } from "../load/arrivals.ts";
import { ACCEPTED, type Published } from "../load/publish-plan.ts";

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

/** Nearest rank; NaN for no values. */
export function percentiles(values: readonly number[]): Percentiles {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
}

export interface FlowStatistics {
  readonly accepted: number;
  readonly refused: number;
  /** How often which other status than 202 was the answer. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Deliveries that accepted events owe. */
  readonly deliveries: number;
  /** Of those, never answered 200 by the receiver. */
  readonly lost: number;
  /** Answered 200 more than once. */
  readonly duplicated: number;
  /** Attempts of all deliveries. */
  readonly attempts: number;
  readonly publishedPerSecond: number;
  /** First publish to last first arrival. */
  readonly deliveredPerSecond: number;
  readonly seconds: number;
  /** Publish to first arrival, milliseconds. */
  readonly latencyMs: Percentiles;
  /** Publish to its answer. */
  readonly ackMs: Percentiles;
}

interface Flow {
  readonly published: Published;
  readonly arrivals: ArrivalReport;
  /** Index of the plan's first event in the run. */
  readonly from: number;
  /** Deliveries per event. */
  readonly slots: number;
}

class Tally {
  accepted = 0;
  lost = 0;
  duplicated = 0;
  attempts = 0;
  firstStart = Number.POSITIVE_INFINITY;
  lastAck = 0;
  lastArrival = 0;
  readonly refusals: Record<string, number> = {};
  readonly latencies: number[] = [];
  readonly acks: number[] = [];

  event(started: number, acked: number, status: number): boolean {
    this.firstStart = Math.min(this.firstStart, started);
    if (status !== ACCEPTED) {
      this.refusals[status] = (this.refusals[status] ?? 0) + 1;
      return false;
    }
    this.accepted += 1;
    this.acks.push(acked - started);
    this.lastAck = Math.max(this.lastAck, acked);
    return true;
  }

  slot(started: number, slot: number, arrivals: ArrivalReport): void {
    const first = arrivals.first[slot] ?? Number.NaN;
    const oks = arrivals.oks[slot] ?? 0;
    this.attempts += arrivals.attempts[slot] ?? 0;
    this.lost += oks === 0 ? 1 : 0;
    this.duplicated += oks > 1 ? 1 : 0;
    if (!Number.isNaN(first)) {
      this.latencies.push(first - started);
      this.lastArrival = Math.max(this.lastArrival, first);
    }
  }
}

/** Sums up the events of one plan. */
export function flowStatistics({ published, arrivals, from, slots }: Flow): FlowStatistics {
  const tally = new Tally();
  const { started, acked, status } = published;
  for (let offset = 0; offset < started.length; offset += 1) {
    const begun = started[offset] ?? Number.NaN;
    if (tally.event(begun, acked[offset] ?? Number.NaN, status[offset] ?? 0)) {
      for (let slot = 0; slot < slots; slot += 1) {
        tally.slot(begun, (from + offset) * slots + slot, arrivals);
      }
    }
  }
  const seconds = (tally.lastArrival - tally.firstStart) / 1_000;
  return {
    accepted: tally.accepted,
    refused: started.length - tally.accepted,
    refusals: tally.refusals,
    deliveries: tally.accepted * slots,
    lost: tally.lost,
    duplicated: tally.duplicated,
    attempts: tally.attempts,
    publishedPerSecond: tally.accepted / ((tally.lastAck - tally.firstStart) / 1_000),
    deliveredPerSecond: tally.latencies.length / seconds,
    seconds,
    latencyMs: percentiles(tally.latencies),
    ackMs: percentiles(tally.acks),
  };
}
