/** Two builds of Signet by the same loads: medians, ratios, and whether this one has become worse. */
import { median } from "../measure/statistics.ts";
import { type Figures, round } from "./measurement.ts";
import { markdownRows } from "./print.ts";

/** A figure may be this many times as bad as the other build's. */
export const RATIO_MAX = 1.1;
/** Figures of which more is better. */
const RATES: ReadonlySet<string> = new Set(["per_second"]);
/** The tail of one load varies by more than {@link RATIO_MAX} between runs of one build. */
const NOT_JUDGED: ReadonlySet<string> = new Set(["p99_ms"]);

export type Side = "this" | "other";

/** One load of one turn. */
export interface TurnFigures {
  readonly load: string;
  readonly side: Side;
  /** Counted from 1. */
  readonly round: number;
  readonly figures: Figures;
}

/** One figure over all rounds. Snake case, because it is public JSON. */
export interface ComparedFigure {
  readonly load: string;
  readonly figure: string;
  /** Medians of the rounds. */
  readonly this: number;
  readonly other: number;
  /** How many times as bad as the other build this one is. NaN if one of them was not measured. */
  readonly times_as_bad: number;
  readonly verdict: "within" | "worse" | "not judged";
}

/** Returns the order of the sides in a round: A B, B A, A B …, so that a trend of the machine meets both. */
export function orderOf(round: number): readonly Side[] {
  return round % 2 === 1 ? ["other", "this"] : ["this", "other"];
}

function timesAsBad(figure: string, own: number, other: number): number {
  const [bad, good] = RATES.has(figure) ? [other, own] : [own, other];
  return bad === good ? 1 : bad / good;
}

function verdictOf(figure: string, times: number): ComparedFigure["verdict"] {
  if (NOT_JUDGED.has(figure)) {
    return "not judged";
  }
  // Not `>`: what was not measured has not held.
  return times <= RATIO_MAX ? "within" : "worse";
}

/** Compares each figure of each load, in the order of their first turn. */
export function compareTurns(turns: readonly TurnFigures[]): ComparedFigure[] {
  const keys = new Map(
    turns.flatMap(({ load, figures }) =>
      Object.keys(figures).map((figure) => [`${load} ${figure}`, { load, figure }] as const),
    ),
  );
  return [...keys.values()].map(({ load, figure }) => {
    const of = (side: Side): number =>
      median(
        turns
          .filter((turn) => turn.load === load && turn.side === side)
          .map(({ figures }) => figures[figure] ?? Number.NaN),
      );
    const [own, other] = [of("this"), of("other")];
    const times = timesAsBad(figure, own, other);
    return {
      load,
      figure,
      this: round(own, 3),
      other: round(other, 3),
      times_as_bad: round(times, 3),
      verdict: verdictOf(figure, times),
    };
  });
}

/** Formats a table for the terminal and the documents. */
export function comparisonTable(compared: readonly ComparedFigure[]): string {
  const number = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 3 });
  return markdownRows([
    ["load", "figure", "this", "other", "times as bad", "verdict"],
    ...compared.map((each) => [
      each.load,
      each.figure,
      number(each.this),
      number(each.other),
      each.times_as_bad.toFixed(2),
      each.verdict,
    ]),
  ]);
}
