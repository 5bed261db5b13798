import { describe, expect, it } from "vitest";
import { parseOptions } from "#test/bench/options.ts";
import {
  compareTurns,
  comparisonTable,
  orderOf,
  type Side,
  type TurnFigures,
} from "#test/bench/report/against.ts";

function turns(side: Side, load: string, ...figures: readonly TurnFigures["figures"][]): TurnFigures[] {
  return figures.map((each, index) => ({ side, load, round: index + 1, figures: each }));
}

/** Compares one figure with three turns of each side. */
function compared(
  figure: string,
  own: readonly number[],
  other: readonly number[],
): readonly [number, string] {
  const of = (side: Side, values: readonly number[]): TurnFigures[] =>
    turns(side, "open-50", ...values.map((value) => ({ [figure]: value })));
  const [only] = compareTurns([...of("this", own), ...of("other", other)]);
  return [only?.times_as_bad ?? Number.NaN, only?.verdict ?? "absent"];
}

describe("a comparison of two builds", () => {
  it("takes turns in both orders, so that a trend of the machine meets both", () => {
    expect([1, 2, 3].flatMap(orderOf)).toEqual(["other", "this", "this", "other", "other", "this"]);
  });

  it("divides the medians of the rounds, so that one slow turn does not count", () => {
    expect(compared("p50_ms", [9, 4, 4.4], [4, 4, 90])).toEqual([1.1, "within"]);
  });

  it.each([
    ["p50_ms", [4.5], [4], [1.125, "worse"]],
    ["p50_ms", [3], [4], [0.75, "within"]],
    ["per_second", [2_000], [2_300], [1.15, "worse"]],
    ["per_second", [2_300], [2_000], [0.87, "within"]],
    ["cores", [0], [0], [1, "within"]],
    ["cores", [0.1], [0], [Number.POSITIVE_INFINITY, "worse"]],
  ] as const)("finds %s of %j against %j to be %j", (figure, own, other, expected) => {
    expect(compared(figure, own, other)).toEqual(expected);
  });

  it("shows the tail of a latency without a verdict", () => {
    expect(compared("p99_ms", [40], [10])).toEqual([4, "not judged"]);
  });

  it("does not accept a figure that one of the two lacks", () => {
    const only = turns("other", "tokens", { per_second: 1_700 });
    expect(compareTurns(only)).toEqual([
      {
        load: "tokens",
        figure: "per_second",
        this: Number.NaN,
        other: 1_700,
        times_as_bad: Number.NaN,
        verdict: "worse",
      },
    ]);
  });

  it("prints a line for each figure of each load", () => {
    const table = comparisonTable(
      compareTurns([
        ...turns("other", "tokens", { per_second: 1_700, p50_ms: 10 }),
        ...turns("this", "tokens", { per_second: 1_500.25, p50_ms: 10 }),
        ...turns("other", "idle", { cores: 0.04 }),
        ...turns("this", "idle", { cores: 0.02 }),
      ]),
    );
    expect(table.split("\n").slice(2)).toEqual([
      "| tokens | per_second | 1,500.25 | 1,700 | 1.13 | worse |",
      "| tokens | p50_ms | 10 | 10 | 1.00 | within |",
      "| idle | cores | 0.02 | 0.04 | 0.50 | within |",
    ]);
  });

  it("has three rounds, and one with --quick", () => {
    expect(parseOptions(["--against", "HEAD"])).toMatchObject({ against: "HEAD", rounds: 3 });
    expect(parseOptions(["--against", "HEAD", "--quick"])).toMatchObject({ rounds: 1 });
    expect(parseOptions([]).against).toBeUndefined();
  });
});
