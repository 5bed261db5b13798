/** Grades of receivers (docs/grader.md). */
import type { GradeService } from "#webhooks/grader/grade-service.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, IdParams, Page, PageQuery } from "#http/common.ts";
import { Grade, GradeParams, GradeSummary, toGradeReport, toGradeSummary } from "../schemas/grades.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

export function registerGradeRoutes(server: SignetServer, grades: GradeService): void {
  server.post(
    "/v1/webhooks/endpoints/:id/grade",
    operation({
      id: "gradeEndpoint",
      sdk: "endpoints.grade",
      tag: "endpoints",
      scopes: ["webhooks:write"],
      summary: "Grade a receiver",
      description:
        "Sends requests that a correct receiver must accept or reject (a wrong signature, an old timestamp, a repetition …) and reports its responses, within two minutes. An endpoint can have one running grade at a time.",
      errors: ["INVALID_STATE"],
      params: IdParams("endpoint"),
      response: { 202: Grade },
    }),
    async ({ identity, params }, reply) => {
      const grade = await grades.start(identity.tenantId, params.id);
      return await reply.code(202).send(toGradeReport(grade));
    },
  );

  server.get(
    "/v1/webhooks/endpoints/:id/grades",
    operation({
      id: "listGrades",
      sdk: "endpoints.listGrades",
      tag: "endpoints",
      scopes: ["webhooks:write"],
      summary: "List the grades of a receiver",
      description: "Newest first; the newest 20 are kept. Each has its score but not its report.",
      params: IdParams("endpoint"),
      querystring: Closed(PageQuery),
      response: { 200: Page(GradeSummary) },
    }),
    async (request) => {
      const page = readPage(request);
      const { identity, params } = request;
      const rows = await grades.list(identity.tenantId, params.id, { ...page, limit: page.limit + 1 });
      return toPage(rows.map(toGradeSummary), page);
    },
  );

  server.get(
    "/v1/webhooks/endpoints/:id/grades/:grade_id",
    operation({
      id: "getGrade",
      sdk: "endpoints.getGrade",
      tag: "endpoints",
      scopes: ["webhooks:write"],
      summary: "Read a grade",
      description: "`report` is null until the grade is `COMPLETED`.",
      params: GradeParams,
      response: { 200: Grade },
    }),
    async ({ identity, params }) =>
      toGradeReport(await grades.find(identity.tenantId, params.id, params.grade_id)),
  );
}
