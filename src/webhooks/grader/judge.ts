/** Evaluates the response to a check. */
import type { AttemptError } from "#domain/delivery.ts";
import type { CheckName } from "./checks.ts";
import type { FindingCode } from "./findings.ts";

/** The response to a check. */
export interface Answer {
  readonly status: number | null;
  /** Why there is no status. Never `status` itself. */
  readonly error: AttemptError | null;
  readonly durationMs: number;
  readonly body: string | null;
}

interface Rule {
  readonly expected: "accept" | "refuse" | "either";
  /** The finding for an unexpected response. */
  readonly finding: FindingCode;
}

export const RULES: Readonly<Record<CheckName, Rule>> = {
  valid: { expected: "accept", finding: "refuses_valid" },
  duplicate: { expected: "accept", finding: "refuses_duplicates" },
  retry: { expected: "accept", finding: "refuses_retries" },
  out_of_order: { expected: "accept", finding: "refuses_older_events" },
  late: { expected: "accept", finding: "clock_too_strict" },
  unusual_json: { expected: "accept", finding: "body_reserialised" },
  header_case: { expected: "accept", finding: "header_case" },
  second_signature: { expected: "accept", finding: "ignores_second_signature" },
  large_body: { expected: "accept", finding: "large_body" },
  slow_body: { expected: "accept", finding: "slow_body" },
  wrong_signature: { expected: "refuse", finding: "accepts_wrong_signature" },
  unsigned: { expected: "refuse", finding: "accepts_unsigned" },
  truncated_signature: { expected: "refuse", finding: "accepts_truncated_signature" },
  rewritten_body: { expected: "refuse", finding: "body_reserialised" },
  stale: { expected: "refuse", finding: "accepts_stale" },
  future: { expected: "refuse", finding: "accepts_future" },
  fresh_timestamp_header: { expected: "refuse", finding: "timestamp_header_trusted" },
  // A receiver may also ignore it as the duplicate that it is.
  fresh_id_header: { expected: "either", finding: "id_header_trusted" },
  valid_again: { expected: "accept", finding: "broken_by_bad_requests" },
};

/** Checks that a receiver passes by not processing an event again. Only the receiver itself can report that. */
export const REPETITIONS: Readonly<Partial<Record<CheckName, FindingCode>>> = {
  duplicate: "duplicates_processed",
  retry: "duplicates_processed",
  fresh_id_header: "id_header_trusted",
};

/** Checks of how signatures are compared. They add nothing for a receiver that compares none. */
const OF_COMPARING: ReadonlySet<CheckName> = new Set(["truncated_signature", "rewritten_body"]);

/**
 * Returns the more general finding, if earlier checks have shown it.
 *
 * @param found findings of earlier checks
 */
export function rootOf(name: CheckName, finding: FindingCode, found: readonly FindingCode[]): FindingCode {
  const root = "accepts_wrong_signature";
  return OF_COMPARING.has(name) && finding === RULES[name].finding && found.includes(root) ? root : finding;
}

/** Whether the receiver reports that it processed the event; null if it does not say. */
export function saysProcessed(body: string | null): boolean | null {
  let answer: unknown;
  try {
    answer = JSON.parse(body ?? "");
  } catch {
    return null;
  }
  if (typeof answer !== "object" || answer === null) {
    return null;
  }
  const { processed, duplicate } = answer as Readonly<Record<string, unknown>>;
  if (typeof processed === "boolean") {
    return processed;
  }
  return typeof duplicate === "boolean" ? !duplicate : null;
}

function succeeded(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}

/** Whether the status blames the request: 4xx, but not 410, which would end all deliveries to the endpoint. */
function refused(status: number | null): boolean {
  return status !== null && status >= 400 && status < 500 && status !== 410;
}

function redirected(status: number | null): boolean {
  return status !== null && status >= 300 && status < 400;
}

/**
 * Returns the fault of a response; null if there is none.
 *
 * @param slowMs responses that take longer are slow, in milliseconds
 */
export function judge(name: CheckName, answer: Answer, slowMs: number): FindingCode | null {
  const { status, durationMs, body } = answer;
  const { expected, finding } = RULES[name];
  if (redirected(status)) {
    return "redirects";
  }
  if (expected === "accept") {
    if (!succeeded(status)) {
      return name === "valid" && status === null ? "unreachable" : finding;
    }
    const repeated = REPETITIONS[name];
    if (repeated !== undefined && saysProcessed(body) === true) {
      return repeated;
    }
    return durationMs > slowMs ? "slow_answer" : null;
  }
  if (succeeded(status)) {
    return expected === "refuse" || saysProcessed(body) === true ? finding : null;
  }
  return refused(status) ? null : "wrong_refusal_status";
}
