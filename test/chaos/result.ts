/** What came of a case, and whether that is what was promised. */
import { loadavg } from "node:os";
import { round } from "../bench/report/measurement.ts";
import type { TargetResult } from "../bench/report/targets.ts";
import type { LedgerCounts } from "./ledger.ts";

/** A bound and what was measured. */
export interface Target extends TargetResult {
  /** A later issue is to reach it: a miss is shown and fails nothing. */
  readonly later?: true;
}

export function atMost(target: string, got: number, most: number): Target {
  return { target, wanted: `≤ ${most}`, got: round(got, 3), met: got <= most };
}

export function later(target: Target): Target {
  return { ...target, later: true };
}

export interface CaseOutcome {
  readonly ledger: LedgerCounts;
  /** What was measured beside the ledger's counts. */
  readonly findings: Readonly<Record<string, unknown>>;
  readonly targets: readonly Target[];
}

/** Snake case: it is JSON for others. */
export interface CaseResult extends Partial<CaseOutcome> {
  readonly name: string;
  readonly about: string;
  readonly at: string;
  /** Why this machine cannot run the case. */
  readonly skipped?: string;
  readonly seconds: number;
  /** Of the machine's last minute: far beyond its cores, and the seconds are void. */
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

/** Promises that were not kept. */
export function problemsOf({ targets = [] }: Pick<CaseResult, "targets">): string[] {
  return targets
    .filter(({ met, later: isLater }) => !met && isLater !== true)
    .map(({ target, wanted, got }) => `${target}: ${got}, wanted ${wanted}`);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What the terminal shows. */
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
      .map(
        ({ target, wanted, got, later: isLater }) =>
          `    MISSED ${target}: ${got} (${wanted})${isLater === true ? ", a later issue's" : ""}`,
      ),
  ];
}
