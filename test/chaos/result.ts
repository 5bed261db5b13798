/** What came of a case, and whether that is what was promised. */
import { loadavg } from "node:os";
import type { ArrivalReport } from "../bench/load/arrivals.ts";
import { ACCEPTED } from "../bench/load/publish-plan.ts";
import { percentiles } from "../bench/measure/statistics.ts";
import { round } from "../bench/report/measurement.ts";
import type { ChaosCase } from "./cases.ts";
import type { PublishedPart } from "./traffic.ts";

/** A fault that was made and has passed; instants are milliseconds of the common clock. */
export interface PassedFault {
  /** Requests that had been sent and were not on record. */
  readonly inFlight: number;
  /** When the process was started again or went on. */
  readonly backAtMs: number;
  /** When PostgreSQL or Temporal took connections; of a process of Signet, when it was started. */
  readonly takesWorkMs: number;
}

/** Snake case: it is JSON for others. */
export interface CaseResult {
  readonly name: string;
  readonly about: string;
  readonly at: string;
  readonly events: number;
  /** Answered 202, some of them when they were sent again. */
  readonly accepted: number;
  /** Other answers, by status; 0: the connection broke. Each was sent again with its key. */
  readonly not_accepted_answers: Readonly<Record<string, number>>;
  /** Acknowledged by their receivers. */
  readonly arrived: number;
  readonly lost: number;
  /** Requests that receivers got beyond those that the schedule prescribes. */
  readonly duplicates: number;
  /** Attempts on record as timeouts although the receiver answers within 10 s: a busy machine makes answers late. */
  readonly late_answers: number;
  /** Requests without an attempt on record. */
  readonly unrecorded: number;
  /** At each fault. */
  readonly in_flight: readonly number[];
  /** From each restart until a delivery arrived, of an event that was accepted after it where there was one. */
  readonly flows_again_s: readonly number[];
  /** How much of that PostgreSQL or Temporal took until it accepted connections. */
  readonly server_took_s: readonly number[];
  /** From the last restart until every accepted event had arrived. */
  readonly all_arrived_s: number;
  readonly p99_ms: number;
  /** The gauge: its greatest value, and its value at the end. */
  readonly oldest_unattempted_max_s: number;
  readonly oldest_unattempted_end_s: number;
  /** Deliveries that had not arrived, and workflows that were open, at the end. */
  readonly undelivered: number;
  readonly open_workflows: number;
  readonly seconds: number;
  /** Of the machine's last minute: far beyond its cores, and the seconds are void. */
  readonly load_average: number;
  /** Promises that were not kept. */
  readonly problems: readonly string[];
}

export interface ResultParts {
  readonly chaos: ChaosCase;
  readonly parts: readonly PublishedPart[];
  readonly arrivals: ArrivalReport;
  readonly faults: readonly PassedFault[];
  /** Attempts of this case that have an outcome on record. */
  readonly recorded: number;
  readonly late: number;
  readonly oldest: { readonly max: number; readonly end: number };
  readonly undelivered: number;
  readonly openWorkflows: number;
  readonly seconds: number;
}

/** One event: when it was accepted, when it arrived. */
interface Fate {
  readonly startedMs: number;
  readonly ackedMs: number;
  readonly accepted: boolean;
  readonly firstMs: number;
  readonly acknowledged: boolean;
  readonly requests: number;
  readonly requestsWanted: number;
}

function fatesOf({ parts, arrivals }: ResultParts): Fate[] {
  return parts.flatMap(({ part, published }) =>
    Array.from(published.status, (status, offset) => {
      const index = part.from + offset;
      return {
        startedMs: published.started[offset] ?? Number.NaN,
        ackedMs: published.acked[offset] ?? Number.NaN,
        accepted: status === ACCEPTED,
        firstMs: arrivals.first[index] ?? Number.NaN,
        acknowledged: (arrivals.oks[index] ?? 0) > 0,
        requests: arrivals.attempts[index] ?? 0,
        requestsWanted: part.requestsOf(index),
      };
    }),
  );
}

/**
 * Seconds until something arrived after the instant, and something that was accepted after it, if anything was. 0 when
 * everything had arrived by then: nothing was left to flow.
 */
function flowsAgain(fates: readonly Fate[], backAtMs: number): number {
  if (fates.every(({ accepted, firstMs }) => !accepted || firstMs < backAtMs)) {
    return 0;
  }
  const late = fates.filter(({ firstMs }) => firstMs >= backAtMs);
  const fresh = late.filter(({ accepted, ackedMs }) => accepted && ackedMs >= backAtMs);
  const counted = fresh.length > 0 ? fresh : late;
  const soonest = counted.reduce((least, { firstMs }) => Math.min(least, firstMs), Number.POSITIVE_INFINITY);
  return (soonest - backAtMs) / 1_000;
}

function sumRepeated(parts: readonly PublishedPart[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const { published } of parts) {
    for (const [status, times] of Object.entries(published.repeated)) {
      sum[status] = (sum[status] ?? 0) + times;
    }
  }
  return sum;
}

function judge(result: Omit<CaseResult, "problems">, chaos: ChaosCase): string[] {
  const bound = result.in_flight.reduce((sum, each) => sum + each, 0);
  const promises: readonly (readonly [boolean, string])[] = [
    [result.accepted === result.events, "every event was accepted in the end"],
    [result.lost === 0, "nothing was lost"],
    [
      result.duplicates <= bound + result.late_answers,
      `no more duplicates than requests in flight (${bound})`,
    ],
    [result.unrecorded <= bound, `no more unrecorded requests than were in flight (${bound})`],
    [
      result.flows_again_s.every((seconds) => seconds <= chaos.flowSeconds),
      `deliveries flowed again within ${chaos.flowSeconds} s`,
    ],
    [result.undelivered === 0 && result.open_workflows === 0, "nothing stuck"],
    [result.oldest_unattempted_end_s === 0, "the gauge went back to 0"],
  ];
  return promises.flatMap(([kept, promise]) => (kept ? [] : [promise]));
}

export function describeResult(found: ResultParts): CaseResult {
  const { chaos, parts, faults, oldest } = found;
  const fates = fatesOf(found);
  const accepted = fates.filter((fate) => fate.accepted);
  const requests = fates.reduce((sum, fate) => sum + fate.requests, 0);
  const lastBackAtMs = faults.at(-1)?.backAtMs ?? Math.min(...fates.map(({ startedMs }) => startedMs));
  const lastMs = accepted.reduce((last, { firstMs }) => Math.max(last, firstMs), 0);
  const latencies = accepted.map(({ firstMs, startedMs }) => firstMs - startedMs);
  const result = {
    name: chaos.name,
    about: chaos.about,
    at: new Date().toISOString(),
    events: fates.length,
    accepted: accepted.length,
    not_accepted_answers: sumRepeated(parts),
    arrived: accepted.filter(({ acknowledged }) => acknowledged).length,
    lost: accepted.filter(({ acknowledged }) => !acknowledged).length,
    duplicates: fates.reduce((sum, fate) => sum + Math.max(0, fate.requests - fate.requestsWanted), 0),
    late_answers: found.late,
    unrecorded: requests - found.recorded,
    in_flight: faults.map(({ inFlight }) => inFlight),
    flows_again_s: faults.map(({ backAtMs }) => round(flowsAgain(fates, backAtMs), 2)),
    server_took_s: faults.map(({ backAtMs, takesWorkMs }) => round((takesWorkMs - backAtMs) / 1_000, 2)),
    load_average: round(loadavg()[0] ?? Number.NaN, 1),
    all_arrived_s: round((lastMs - lastBackAtMs) / 1_000, 2),
    p99_ms: round(percentiles(latencies.filter((latency) => !Number.isNaN(latency))).p99, 0),
    oldest_unattempted_max_s: round(oldest.max, 2),
    oldest_unattempted_end_s: round(oldest.end, 2),
    undelivered: found.undelivered,
    open_workflows: found.openWorkflows,
    seconds: round(found.seconds, 1),
  };
  return { ...result, problems: judge(result, chaos) };
}

function textOf(values: readonly number[]): string {
  return values.length === 0 ? "-" : values.join("+");
}

/** One line of the terminal. */
export function resultLine(result: CaseResult): string {
  const answers = Object.entries(result.not_accepted_answers).map(([status, times]) => `${times}×${status}`);
  return [
    result.name.padEnd(26),
    `accepted ${result.accepted}/${result.events}`,
    `arrived ${result.arrived}`,
    `lost ${result.lost}`,
    `duplicates ${result.duplicates} of ${textOf(result.in_flight)} in flight`,
    ...(result.late_answers > 0 ? [`(${result.late_answers} answers late)`] : []),
    `flows again ${textOf(result.flows_again_s)} s (server ${textOf(result.server_took_s)} s)`,
    `all ${result.all_arrived_s} s`,
    `oldest unattempted ${result.oldest_unattempted_max_s} s, at the end ${result.oldest_unattempted_end_s} s`,
    `stuck ${result.undelivered}`,
    `load ${result.load_average}`,
    ...(answers.length > 0 ? [`sent again ${answers.join(" ")}`] : []),
    ...(result.problems.length > 0 ? [`BROKEN: ${result.problems.join("; ")}`] : ["ok"]),
  ].join("  ");
}
