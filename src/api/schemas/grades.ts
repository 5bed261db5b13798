/** Schemas of receivers' grades. */
import { type Static, Type } from "typebox";
import type {
  Grade as GradeRow,
  GradeSummary as GradeSummaryRow,
} from "#database/repositories/endpoints/endpoint-grades.ts";
import { ATTEMPT_ERRORS } from "#domain/delivery.ts";
import { CHECK_NAMES } from "#webhooks/grader/checks.ts";
import { type FindingCode, FINDINGS } from "#webhooks/grader/findings.ts";
import type { GradeReport } from "#webhooks/grader/grade.ts";
import { Closed, Id, Nullable, OneOf, Resource, Timestamp } from "#http/common.ts";

const CODES = Object.keys(FINDINGS) as FindingCode[];

export const GradeParams = Closed({ id: Id("endpoint"), grade_id: Id("grade") });

const Report = Resource("GradeReport", {
  score: Type.Integer({ minimum: 0, maximum: 100, description: "100 means no findings" }),
  findings: Type.Array(
    Resource("GradeFinding", {
      code: OneOf(CODES),
      severity: OneOf(["critical", "major", "minor"]),
      checks: Type.Array(OneOf(CHECK_NAMES)),
      problem: Type.String(),
      advice: Type.String(),
    }),
  ),
  not_observed: Type.Array(Resource("UnobservedFinding", { code: OneOf(CODES), advice: Type.String() }), {
    description: "Findings that need a report from the receiver, since they cannot be observed from outside",
  }),
  checks: Type.Array(
    Resource("GradeCheck", {
      name: OneOf(CHECK_NAMES),
      expected: OneOf(["accept", "refuse", "either"]),
      verdict: OneOf(["passed", "failed", "not_performed"]),
      status: Nullable(Type.Integer()),
      error: Nullable(OneOf(ATTEMPT_ERRORS)),
      duration_ms: Nullable(Type.Integer()),
    }),
  ),
});

const summary = {
  id: Id("grade"),
  endpoint_id: Id("endpoint"),
  state: OneOf(["QUEUED", "RUNNING", "COMPLETED", "FAILED"]),
  failure: Nullable(OneOf(["endpoint_not_active", "interrupted"])),
  created_at: Timestamp,
  finished_at: Nullable(Timestamp),
};

export const Grade = Resource("Grade", {
  ...summary,
  checks_made: Type.Integer({ description: "Progress: requests sent, of `checks_total`" }),
  checks_total: Type.Integer(),
  report: Nullable(Report),
});

/** A grade in a list. */
export const GradeSummary = Resource("GradeSummary", {
  ...summary,
  score: Nullable(
    Type.Integer({
      minimum: 0,
      maximum: 100,
      description: "The report's score; null until there is a report",
    }),
  ),
});

function toGradeBasics(row: Omit<GradeSummaryRow, "score">): Omit<Static<typeof GradeSummary>, "score"> {
  return {
    id: row.id,
    endpoint_id: row.endpointId,
    state: row.state,
    failure: row.failure,
    created_at: row.createdAt.toISOString(),
    finished_at: row.finishedAt?.toISOString() ?? null,
  };
}

export function toGradeSummary(row: GradeSummaryRow): Static<typeof GradeSummary> {
  return { ...toGradeBasics(row), score: row.score };
}

export function toGradeReport(row: GradeRow): Static<typeof Grade> {
  const report = row.report === null ? null : (JSON.parse(row.report) as Static<typeof Report> & GradeReport);
  return {
    ...toGradeBasics(row),
    checks_made: report?.checks.filter(({ verdict }) => verdict !== "not_performed").length ?? row.checksMade,
    checks_total: CHECK_NAMES.length,
    report,
  };
}
