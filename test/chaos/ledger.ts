/**
 * The suite's own ledger: two files, written by the publisher and the receiver. Each line is on disk before anyone acts
 * on it. Lost, duplicate and late events are computed from these files alone.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { percentiles } from "../bench/measure/statistics.ts";
import { round } from "../bench/report/measurement.ts";

export interface LedgerFiles {
  /** File with one line per 202. */
  readonly accepted: string;
  /** File with one line per request and one per acknowledgement (2xx). */
  readonly arrived: string;
}

export function ledgerFiles(directory: string, run: string): LedgerFiles {
  return {
    accepted: join(directory, `${run}-accepted.ndjson`),
    arrived: join(directory, `${run}-arrived.ndjson`),
  };
}

/** An event that was accepted or has arrived. Instants are milliseconds of the common clock. */
export interface Fate {
  readonly index: number;
  /** Number of the receiver's endpoint; -1 if nothing has arrived. */
  readonly endpoint: number;
  /** When it was first sent and when its 202 arrived; NaN if it was never accepted. */
  readonly sentMs: number;
  readonly acceptedMs: number;
  /** When each of its requests arrived, in order. */
  readonly requestsMs: readonly number[];
  readonly acknowledgements: number;
}

type Line = Readonly<Record<string, number>>;

async function readLines(path: string): Promise<Line[]> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
}

interface Draft extends Fate {
  endpoint: number;
  sentMs: number;
  acceptedMs: number;
  readonly requestsMs: number[];
  acknowledgements: number;
}

/** Reads both files and joins them by event index. */
export async function readLedger({ accepted, arrived }: LedgerFiles): Promise<Fate[]> {
  const fates = new Map<number, Draft>();
  const fateOf = (index: number): Draft => {
    const known = fates.get(index);
    if (known !== undefined) {
      return known;
    }
    const made: Draft = {
      index,
      endpoint: -1,
      sentMs: Number.NaN,
      acceptedMs: Number.NaN,
      requestsMs: [],
      acknowledgements: 0,
    };
    fates.set(index, made);
    return made;
  };
  for (const { accepted: index = -1, sent_ms: sentMs = 0, at_ms: atMs = 0 } of await readLines(accepted)) {
    const fate = fateOf(index);
    // A repeated event counts as accepted at its first 202.
    if (Number.isNaN(fate.acceptedMs)) {
      fate.sentMs = sentMs;
      fate.acceptedMs = atMs;
    }
  }
  for (const { arrived: index, acknowledged, endpoint = -1, at_ms: atMs = 0 } of await readLines(arrived)) {
    if (acknowledged !== undefined) {
      fateOf(acknowledged).acknowledgements += 1;
    } else if (index !== undefined) {
      const fate = fateOf(index);
      fate.endpoint = endpoint;
      fate.requestsMs.push(atMs);
    }
  }
  return [...fates.values()].sort((a, b) => a.index - b.index);
}

/** Snake case, because it is public JSON. */
export interface LedgerCounts {
  /** Number of events with a 202. */
  readonly accepted: number;
  /** Number of accepted events that were acknowledged. */
  readonly arrived: number;
  /** Number of accepted events that were never acknowledged. */
  readonly lost: number;
  /** Number of events that were acknowledged more than once. */
  readonly duplicated: number;
  /** Number of accepted events whose first request came later than {@link LATE_MS} after the 202. */
  readonly late: number;
  /** Number of requests of all events. */
  readonly requests: number;
  /** From sending the event to the arrival of its first request. */
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly longest_ms: number;
}

/** Threshold of the alert SignetDeliveriesWait. */
const LATE_MS = 60_000;

/** Counts the events of a ledger by outcome. */
export function countLedger(fates: readonly Fate[]): LedgerCounts {
  const accepted = fates.filter(({ acceptedMs }) => !Number.isNaN(acceptedMs));
  const arrived = accepted.filter(({ acknowledgements }) => acknowledgements > 0);
  const first = ({ requestsMs }: Fate): number => requestsMs[0] ?? Number.POSITIVE_INFINITY;
  const latencies = accepted.map((fate) => first(fate) - fate.sentMs).filter(Number.isFinite);
  const spread = percentiles(latencies);
  return {
    accepted: accepted.length,
    arrived: arrived.length,
    lost: accepted.length - arrived.length,
    duplicated: fates.filter(({ acknowledgements }) => acknowledgements > 1).length,
    late: accepted.filter((fate) => first(fate) - fate.acceptedMs > LATE_MS).length,
    requests: fates.reduce((sum, { requestsMs }) => sum + requestsMs.length, 0),
    p50_ms: round(spread.p50, 0),
    p99_ms: round(spread.p99, 0),
    longest_ms: round(
      latencies.reduce((most, latency) => Math.max(most, latency), 0),
      0,
    ),
  };
}
