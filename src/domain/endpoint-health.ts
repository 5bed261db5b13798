/** Health of an endpoint, derived from the results of its latest attempts. */
import type { EndpointState } from "./endpoint-state.ts";

export const HEALTHS = ["healthy", "degraded", "failing"] as const;
export type Health = (typeof HEALTHS)[number];

/** Health as it is shown: unknown before the first attempt, and while the URL is not verified. */
export const SHOWN_HEALTHS = [...HEALTHS, "unknown"] as const;
export type ShownHealth = (typeof SHOWN_HEALTHS)[number];

/** Number of attempts that decide. */
export const RESULTS_KEPT = 20;
/** This many failures in a row, or half of the kept results, make an endpoint failing. */
const FAILING_IN_A_ROW = 5;
const FAILING_IN_ALL = RESULTS_KEPT / 2;
/** Successes in a row that end it, whatever came before them: a slow endpoint recovers within few deliveries. */
const RECOVERED_IN_A_ROW = 3;
const DEGRADED_IN_ALL = 3;

/** Results of attempts in their order: `1` for success and `0` for failure, at most {@link RESULTS_KEPT}. */
export type Results = string;

/** Appends newer results. */
export function withResults(results: Results, newer: Results): Results {
  return (results + newer).slice(-RESULTS_KEPT);
}

/** Returns the health of an endpoint to show. Attempts at a former URL say nothing about one that is not verified. */
export function shownHealth(state: EndpointState, health: Health, results: Results): ShownHealth {
  return state === "PENDING" || results === "" ? "unknown" : health;
}

/** Returns the health that follows from the results. */
export function healthOf(results: Results): Health {
  const failed = results.replaceAll("1", "").length;
  if (results.endsWith("0".repeat(FAILING_IN_A_ROW))) {
    return "failing";
  }
  if (failed >= FAILING_IN_ALL && !results.endsWith("1".repeat(RECOVERED_IN_A_ROW))) {
    return "failing";
  }
  return failed >= DEGRADED_IN_ALL ? "degraded" : "healthy";
}
