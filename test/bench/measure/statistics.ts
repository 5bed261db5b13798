/** Computes figures from the records of the publisher and the sink. */
import type { ArrivalReport } from "../load/arrivals.ts";
import { ACCEPTED, type Published } from "../load/publish-plan.ts";

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

/** Nearest rank; NaN if there are no values. */
export function percentiles(values: readonly number[]): Percentiles {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
}

/** The middle value, or the mean of the middle two; NaN if there are no values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [Math.floor((sorted.length - 1) / 2), Math.floor(sorted.length / 2)];
  return ((sorted[low] ?? Number.NaN) + (sorted[high] ?? Number.NaN)) / 2;
}

export interface FlowStatistics {
  readonly accepted: number;
  readonly refused: number;
  /** Number of responses other than 202, by status. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Number of deliveries due for accepted events. */
  readonly deliveries: number;
  /** Number of deliveries that the receiver never answered 200. */
  readonly lost: number;
  /** Number of deliveries answered 200 more than once. */
  readonly duplicated: number;
  /** Attempts of all deliveries. */
  readonly attempts: number;
  readonly publishedPerSecond: number;
  /** Rate from the first publish to the last first arrival. */
  readonly deliveredPerSecond: number;
  readonly seconds: number;
  /** From publish to first arrival, in milliseconds. */
  readonly latencyMs: Percentiles;
  /** From publish to its response, in milliseconds. */
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

/** Computes the statistics of one plan. */
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
