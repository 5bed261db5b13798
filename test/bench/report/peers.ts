/** Signet beside its peers: medians of the runs, and Signet's figures as multiples of each peer's. */
import type { RigResult } from "../load/rig.ts";
import { median } from "../measure/statistics.ts";
import { round } from "./measurement.ts";
import { markdownRows } from "./print.ts";

/** The name under which Signet takes part. */
export const SIGNET = "signet";

export const FIGURES = ["p50_ms", "p99_ms", "cpu_s_per_1000", "per_second"] as const;
export type Figure = (typeof FIGURES)[number];

/** One run of the rig. Snake case, because it is public JSON. */
export interface PeerRun extends Readonly<Record<Figure, number>> {
  readonly load: string;
  readonly subject: string;
  /** Counted from 1. */
  readonly round: number;
  readonly published_per_second: number;
  readonly p90_ms: number;
  readonly max_ms: number;
  readonly ack_p50_ms: number;
  readonly ack_p99_ms: number;
  readonly cpu_s_per_1000_settled: number;
  /** CPU-seconds until the last arrival, by process tree. */
  readonly cpu_s: Readonly<Record<string, number>>;
  /** Cores that the idle system used just before. */
  readonly idle_cores: number;
  readonly pss_mib: number;
  readonly accepted: number;
  readonly refused: number;
  readonly lost: number;
  readonly doubled: number;
  /** Cores that all other programs used meanwhile. */
  readonly others_cores: number;
  /** Of the last minute. */
  readonly load_average: number;
}

export interface RunParts {
  readonly load: string;
  readonly subject: string;
  readonly round: number;
  readonly result: RigResult;
  readonly othersCores: number;
  readonly loadAverage: number;
}

export function describeRun({ result, othersCores, loadAverage, ...which }: RunParts): PeerRun {
  const { lat_ms: latency, ack_ms: ack } = result;
  const trees = Object.entries(result.procs);
  return {
    ...which,
    per_second: result.e2e_per_s,
    published_per_second: result.publish_per_s,
    p50_ms: latency.p50,
    p90_ms: latency.p90,
    p99_ms: latency.p99,
    max_ms: latency.max,
    ack_p50_ms: ack.p50,
    ack_p99_ms: ack.p99,
    cpu_s_per_1000: result.cpu_s_per_1000,
    cpu_s_per_1000_settled: result.cpu_s_per_1000_settled,
    cpu_s: Object.fromEntries(trees.map(([name, { cpu_s: seconds }]) => [name, seconds])),
    idle_cores: round(
      trees.reduce((sum, [, { idle_cpu_frac: share }]) => sum + share, 0),
      3,
    ),
    pss_mib: result.pss_mib_total,
    accepted: result.accepted,
    refused: result.rejected,
    lost: result.lost,
    doubled: result.duplicated,
    others_cores: round(othersCores, 2),
    load_average: round(loadAverage, 1),
  };
}

/** Formats one line for the terminal. */
export function peerRunLine(run: PeerRun): string {
  return [
    `${run.round} ${run.subject.padEnd(10)} ${run.load.padEnd(14)}`,
    `${run.per_second}/s`.padStart(9),
    `p50 ${run.p50_ms} p99 ${run.p99_ms} ms`,
    `CPU-s/1000 ${run.cpu_s_per_1000}`,
    `lost ${run.lost} dup ${run.doubled} refused ${run.refused}`,
    `(others used ${run.others_cores} cores)`,
  ].join("  ");
}

/** The middle of several values, and their range. */
export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

type Each<Value> = Readonly<Record<Figure, Value>>;
/** By load and by subject. */
type Table<Value> = Readonly<Record<string, Readonly<Record<string, Each<Value>>>>>;

export interface PeerSummary {
  readonly figures: Table<Spread>;
  /**
   * Signet's median as a multiple of the peer's, by load and peer. `least` and `most` are the range over the rounds, in
   * each of which they were measured within minutes.
   */
  readonly ratios: Table<Spread>;
  /** Sums over all runs, by subject. */
  readonly counts: Readonly<Record<string, Readonly<Record<"refused" | "lost" | "doubled", number>>>>;
}

function each<Value>(read: (figure: Figure) => Value): Each<Value> {
  return Object.fromEntries(FIGURES.map((figure) => [figure, read(figure)])) as Record<Figure, Value>;
}

function rangeOf(values: readonly number[]): Pick<Spread, "least" | "most"> {
  return { least: Math.min(...values), most: Math.max(...values) };
}

function tableOf<Value>(
  loads: readonly string[],
  subjects: readonly string[],
  read: (load: string, subject: string) => Each<Value>,
): Table<Value> {
  return Object.fromEntries(
    loads.map((load) => [
      load,
      Object.fromEntries(subjects.map((subject) => [subject, read(load, subject)])),
    ]),
  );
}

/** Summarises runs of which each load, subject and round has one. */
export function summarisePeers(runs: readonly PeerRun[]): PeerSummary {
  const loads = [...new Set(runs.map(({ load }) => load))];
  const subjects = [...new Set(runs.map(({ subject }) => subject))];
  const of = (load: string, subject: string): PeerRun[] =>
    runs.filter((run) => run.load === load && run.subject === subject);
  const middle = (load: string, subject: string, figure: Figure): number =>
    median(of(load, subject).map((run) => run[figure]));
  const figures = tableOf(loads, subjects, (load, subject) =>
    each((figure) => ({
      median: round(middle(load, subject, figure), 3),
      ...rangeOf(of(load, subject).map((run) => run[figure])),
    })),
  );
  const peers = subjects.filter((subject) => subject !== SIGNET);
  const ratios = tableOf(loads, peers, (load, peer) =>
    each((figure) => {
      const theirs = of(load, peer);
      const byRound = of(load, SIGNET).flatMap((our) => {
        const their = theirs.find((run) => run.round === our.round);
        return their === undefined ? [] : [round(our[figure] / their[figure], 3)];
      });
      return {
        median: round(middle(load, SIGNET, figure) / middle(load, peer, figure), 3),
        ...rangeOf(byRound),
      };
    }),
  );
  const total = (subject: string, count: "refused" | "lost" | "doubled"): number =>
    runs.filter((run) => run.subject === subject).reduce((sum, run) => sum + run[count], 0);
  const counts = Object.fromEntries(
    subjects.map((subject) => [
      subject,
      {
        refused: total(subject, "refused"),
        lost: total(subject, "lost"),
        doubled: total(subject, "doubled"),
      },
    ]),
  );
  return { figures, ratios, counts };
}

const TITLES: Each<string> = {
  p50_ms: "p50 ms",
  p99_ms: "p99 ms",
  cpu_s_per_1000: "CPU-s per 1,000",
  per_second: "per second",
};

/** An open loop fixes the rate; a closed loop's latency is that of its own queue. */
function figuresOf(load: string): readonly Figure[] {
  return load.startsWith("open") ? ["p50_ms", "p99_ms", "cpu_s_per_1000"] : ["per_second", "cpu_s_per_1000"];
}

function cell({ median: middle, least, most }: Spread): string {
  const text = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 2 });
  return least === most ? text(middle) : `${text(middle)} (${text(least)} – ${text(most)})`;
}

/** Formats the table of docs/benchmarks.md: a median and, in brackets, the range over the rounds. */
export function peersTable({ figures, ratios, counts }: PeerSummary): string {
  const subjects = Object.keys(counts);
  const peers = subjects.filter((subject) => subject !== SIGNET);
  const rows = Object.keys(figures).flatMap((load) =>
    figuresOf(load).map((figure) => {
      const of = (table: Table<Spread>, subject: string): string => {
        const spread = table[load]?.[subject]?.[figure];
        return spread === undefined ? "" : cell(spread);
      };
      return [
        `${load}: ${TITLES[figure]}`,
        ...subjects.map((subject) => of(figures, subject)),
        ...peers.map((peer) => of(ratios, peer)),
      ];
    }),
  );
  const counted = ["refused", "lost", "doubled"] as const;
  return markdownRows([
    ["load", ...subjects, ...peers.map((peer) => `signet / ${peer}`)],
    ...rows,
    [
      counted.join(" / "),
      ...subjects.map((subject) => counted.map((count) => counts[subject]?.[count]).join(" / ")),
      ...peers.map(() => ""),
    ],
  ]);
}
