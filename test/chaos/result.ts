/** The result of a case, compared to its bounds. */
import { loadavg } from "node:os";
import { round } from "../bench/report/measurement.ts";
import type { TargetResult } from "../bench/report/targets.ts";
import type { LedgerCounts } from "./ledger.ts";

/** Returns a bound with the measured value. */
export function atMost(target: string, got: number, most: number): TargetResult {
  return { target, wanted: `≤ ${most}`, got: round(got, 3), met: got <= most };
}

export interface CaseOutcome {
  readonly ledger: LedgerCounts;
  /** Values measured in addition to the ledger's counts. */
  readonly findings: Readonly<Record<string, unknown>>;
  readonly targets: readonly TargetResult[];
}

/** Snake case, because it is public JSON. */
export interface CaseResult extends Partial<CaseOutcome> {
  readonly name: string;
  readonly about: string;
  readonly at: string;
  /** Reason why this machine cannot run the case. */
  readonly skipped?: string;
  readonly seconds: number;
  /** Load average of the last minute. Far above the number of cores, the seconds are void. */
  readonly load_average: number;
}

interface About {
  readonly name: string;
  readonly about: string;
}

export function describeResult(
  { name, about }: About,
  outcome: CaseOutcome | { readonly skipped: string },
  seconds: number,
): CaseResult {
  return {
    name,
    about,
    at: new Date().toISOString(),
    seconds: round(seconds, 1),
    load_average: round(loadavg()[0] ?? Number.NaN, 1),
    ...outcome,
  };
}

/** Returns the bounds that were missed. */
export function problemsOf({ targets = [] }: Pick<CaseResult, "targets">): string[] {
  return targets
    .filter(({ met }) => !met)
    .map(({ target, wanted, got }) => `${target}: ${got}, wanted ${wanted}`);
}

/**
 * Returns what a run comes to. A skipped case has not held.
 *
 * @param failed number of cases that ended with an error
 * @param release whether each case must have run
 */
export function verdictOf(
  results: readonly Pick<CaseResult, "skipped" | "targets">[],
  failed: number,
  release: boolean,
): { readonly line: string; readonly passes: boolean } {
  const ran = results.filter(({ skipped }) => skipped === undefined);
  const held = ran.filter((result) => problemsOf(result).length === 0).length;
  const skipped = results.length - ran.length;
  return {
    line: `${held} of ${results.length + failed} cases held${skipped > 0 ? `, ${skipped} skipped` : ""}`,
    passes: held === ran.length && failed === 0 && !(release && skipped > 0),
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Formats a result for the terminal. */
export function resultLines(result: CaseResult): string[] {
  const { name, ledger, findings = {}, targets = [], skipped } = result;
  if (skipped !== undefined || ledger === undefined) {
    return [`${name.padEnd(26)}SKIPPED: ${skipped}`];
  }
  const { accepted, arrived, lost, duplicated, late, p99_ms: p99 } = ledger;
  return [
    [
      name.padEnd(26),
      `accepted ${accepted}`,
      `arrived ${arrived}`,
      `lost ${lost}`,
      `duplicated ${duplicated}`,
      `late ${late}`,
      `p99 ${p99} ms`,
      `load ${result.load_average}`,
      problemsOf(result).length === 0 ? "ok" : "BROKEN",
    ].join("  "),
    `    ${Object.entries(findings)
      .map(([key, value]) => `${key} ${textOf(value)}`)
      .join(", ")}`,
    ...targets
      .filter(({ met }) => !met)
      .map(({ target, wanted, got }) => `    MISSED ${target}: ${got} (${wanted})`),
  ];
}
