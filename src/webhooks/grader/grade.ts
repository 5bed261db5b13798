/**
 * Tests a receiver with valid and invalid deliveries and reports its faults. Sends at most 20 requests, one after the
 * other. Of each response it keeps only status, time and verdict.
 */
import type { HttpSender, SendResult } from "../sending/http-sender.ts";
import type { Signer } from "../sending/signer.ts";
import type { Clock } from "#domain/clock.ts";
import type { AttemptError } from "#domain/delivery.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { CHECK_NAMES, type CheckName, Checks, type GradeRequest, type GradeSubject } from "./checks.ts";
import { COST, type FindingCode, FINDINGS, HOW_TO_OBSERVE, type Severity } from "./findings.ts";
import { judge, REPETITIONS, rootOf, RULES, saysProcessed } from "./judge.ts";

export interface CheckResult {
  readonly name: CheckName;
  readonly expected: "accept" | "refuse" | "either";
  readonly verdict: "passed" | "failed" | "not_performed";
  readonly status: number | null;
  readonly error: AttemptError | null;
  readonly duration_ms: number | null;
}

export interface Finding {
  readonly code: FindingCode;
  readonly severity: Severity;
  readonly checks: readonly CheckName[];
  readonly problem: string;
  readonly advice: string;
}

/** The report as the API returns it. */
export interface GradeReport {
  /** 100 without findings, 0 at worst. */
  readonly score: number;
  readonly findings: readonly Finding[];
  /** Faults that are not visible from outside, and how to make them visible. */
  readonly not_observed: readonly { readonly code: FindingCode; readonly advice: string }[];
  readonly checks: readonly CheckResult[];
}

export interface GradeLimits {
  /** Responses slower than this are a finding, in milliseconds; 5,000 of the 10,000 of a delivery. */
  readonly slowMs: number;
  readonly deadlineMs: number;
  /** Limit for all requests, in milliseconds. Later checks are not performed. */
  readonly overallMs: number;
  /** Pause between requests, in milliseconds. */
  readonly pauseMs: number;
  /** Duration of a slowly sent body, in milliseconds. */
  readonly dripMs: number;
}

export const GRADE_LIMITS: GradeLimits = {
  slowMs: 5_000,
  deadlineMs: 10_000,
  overallMs: 110_000,
  pauseMs: 100,
  dripMs: 3_000,
};

export interface GradeOptions {
  readonly http: Pick<HttpSender, "send">;
  readonly signer: Signer;
  readonly headerBrand: string;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly wait: (ms: number) => Promise<unknown>;
  readonly limits?: Partial<GradeLimits>;
  /** Called before every request with the number of requests made; false ends the grade. */
  readonly mayContinue?: (made: number) => Promise<boolean>;
}

interface Performed {
  readonly name: CheckName;
  readonly result: SendResult;
  readonly finding: FindingCode | null;
}

function checkResult(name: CheckName, performed: Performed | undefined): CheckResult {
  const { expected } = RULES[name];
  if (performed === undefined) {
    return { name, expected, verdict: "not_performed", status: null, error: null, duration_ms: null };
  }
  const { result, finding } = performed;
  return {
    name,
    expected,
    verdict: finding === null ? "passed" : "failed",
    status: result.status,
    error: result.error === "status" ? null : result.error,
    duration_ms: result.durationMs,
  };
}

/** Returns each finding once, the worst first. */
function findingsOf(performed: readonly Performed[]): Finding[] {
  const checksByCode = new Map<FindingCode, CheckName[]>();
  for (const { name, finding } of performed) {
    if (finding !== null) {
      checksByCode.set(finding, [...(checksByCode.get(finding) ?? []), name]);
    }
  }
  return [...checksByCode]
    .map(([code, checks]) => ({ code, ...FINDINGS[code], checks }))
    .toSorted((left, right) => COST[right.severity] - COST[left.severity]);
}

/** Returns the faults that could not be observed: the receiver did not report what it processed. */
function notObserved(performed: readonly Performed[]): GradeReport["not_observed"] {
  if (performed.some(({ result }) => saysProcessed(result.responseBody) !== null)) {
    return [];
  }
  const codes = new Set(Object.values(REPETITIONS));
  return [...codes].map((code) => ({ code, advice: HOW_TO_OBSERVE }));
}

/** Returns the score. It is 0 if anyone can send to the receiver. */
function scoreOf(findings: readonly Finding[]): number {
  const open = findings.some(({ code }) => code === "accepts_wrong_signature");
  return open ? 0 : findings.reduce((score, { severity }) => Math.max(0, score - COST[severity]), 100);
}

function reportOf(performed: readonly Performed[]): GradeReport {
  const findings = findingsOf(performed);
  const byName = new Map(performed.map((one) => [one.name, one]));
  return {
    score: performed.length === 0 ? 0 : scoreOf(findings),
    findings,
    not_observed: notObserved(performed),
    checks: CHECK_NAMES.map((name) => checkResult(name, byName.get(name))),
  };
}

/** Grades the receiver at a URL. The caller must know that the receiver has agreed. */
export async function gradeReceiver(
  url: string,
  subject: GradeSubject,
  options: GradeOptions,
): Promise<GradeReport> {
  const { http, signer, headerBrand, clock, randomBytes, wait } = options;
  const limits = { ...GRADE_LIMITS, ...options.limits };
  const checks = new Checks(subject);
  const endMs = clock.now() + limits.overallMs;
  const performed: Performed[] = [];

  async function send(request: GradeRequest): Promise<SendResult> {
    return await http.send({ url, ...request, deadlineMs: limits.deadlineMs });
  }

  for (const name of CHECK_NAMES) {
    const nowMs = clock.now();
    if (nowMs >= endMs || (await options.mayContinue?.(performed.length)) === false) {
      break;
    }
    const sources = { signer, headerBrand, nowMs, randomBytes, dripMs: limits.dripMs };
    const request = checks.build(name, sources);
    const result = await send(request);
    const { status, durationMs, error, responseBody: body } = result;
    const slowMs = limits.slowMs + (request.drip === undefined ? 0 : limits.dripMs);
    const shown = judge(name, { status, error, durationMs, body }, slowMs);
    const found = performed.flatMap((check) => check.finding ?? []);
    const finding = shown === null ? null : rootOf(name, shown, found);
    performed.push({ name, result, finding });
    if (name === "valid" && finding !== null && finding !== "slow_answer") {
      // A receiver that rejects valid requests may reject invalid ones for the wrong reason.
      break;
    }
    await wait(limits.pauseMs);
  }
  return reportOf(performed);
}
