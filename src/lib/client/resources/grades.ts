/** Grades of receivers: checks and findings. */

export interface GradeFinding {
  /** Stable. */
  readonly code: string;
  readonly severity: "critical" | "major" | "minor";
  /** The checks that found it. */
  readonly checks: readonly string[];
  readonly problem: string;
  readonly advice: string;
}

export interface GradeCheck {
  readonly name: string;
  readonly expected: "accept" | "refuse" | "either";
  readonly verdict: "passed" | "failed" | "not_performed";
  readonly status: number | null;
  readonly error: string | null;
  readonly duration_ms: number | null;
}

export interface GradeReport {
  /** 100: no findings. */
  readonly score: number;
  /** Worst first. */
  readonly findings: readonly GradeFinding[];
  /** Facts not visible from outside, and how the receiver can report them. */
  readonly not_observed: readonly { readonly code: string; readonly advice: string }[];
  readonly checks: readonly GradeCheck[];
}

interface GradeBasics {
  readonly id: string;
  readonly endpoint_id: string;
  readonly state: "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED";
  readonly failure: "endpoint_not_active" | "interrupted" | null;
  readonly created_at: string;
  readonly finished_at: string | null;
}

export interface Grade extends GradeBasics {
  /** Progress: requests made, of `checks_total`. */
  readonly checks_made: number;
  readonly checks_total: number;
  /** Null until it is COMPLETED. */
  readonly report: GradeReport | null;
}

/** A grade in a list. */
export interface GradeSummary extends GradeBasics {
  /** Score of its report; null until there is one. */
  readonly score: number | null;
}
