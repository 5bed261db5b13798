/** Grades of receivers (docs/grader.md). */
import type { GradeService } from "../../webhooks/grader/grade-service.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, IdParams, Page, PageQuery } from "../../http/common.ts";
import { Grade, GradeParams, GradeSummary, presentGrade, presentGradeSummary } from "../schemas/grades.ts";
import type { SignetServer } from "../../http/types.ts";

const TAGS = ["endpoints"];

export function registerGradeRoutes(server: SignetServer, grades: GradeService): void {
  server.post(
    "/v1/webhooks/endpoints/:id/grade",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: IdParams("endpoint"), response: { 202: Grade } },
    },
    async ({ identity, params }, reply) => {
      const grade = await grades.start(identity.tenantId, params.id);
      return await reply.code(202).send(presentGrade(grade));
    },
  );

  server.get(
    "/v1/webhooks/endpoints/:id/grades",
    {
      config: { scopes: ["webhooks:write"] },
      schema: {
        tags: TAGS,
        params: IdParams("endpoint"),
        querystring: Closed(PageQuery),
        response: { 200: Page(GradeSummary) },
      },
    },
    async (request) => {
      const page = readPage(request);
      const { identity, params } = request;
      const rows = await grades.list(identity.tenantId, params.id, { ...page, limit: page.limit + 1 });
      return toPage(rows.map(presentGradeSummary), page);
    },
  );

  server.get(
    "/v1/webhooks/endpoints/:id/grades/:grade_id",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: GradeParams, response: { 200: Grade } },
    },
    async ({ identity, params }) =>
      presentGrade(await grades.find(identity.tenantId, params.id, params.grade_id)),
  );
}
