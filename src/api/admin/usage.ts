/** Usage of all tenants. */
import { Type } from "typebox";
import {
  type DayOfUsage,
  readUsage,
  readUsagePage,
} from "#database/repositories/webhooks/delivery-counts.ts";
import { invalidParameters, SignetError } from "#domain/errors.ts";
import { Closed, Id, Page, PageQuery } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { operation } from "../openapi/operation.ts";
import { nextCursor, readPage } from "../pagination.ts";
import { CSV_EXAMPLE, sendUsage, Usage, UsageQuery, usageSpan } from "../usage.ts";
import type { AdminServices } from "./services.ts";

/** Maximum number of rows in a response that is no page. */
const ROWS_MAX = 100_000;
/** Without a default: the first clients of this list know no pages. */
const Pages = { ...PageQuery, limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })) };
/** The place of a row in a cursor: its tenant and its day; without a day, the tenant's first row. */
const PLACE = /^ten_[0-9a-hjkmnp-tv-z]{24}\/(\d{4}-\d\d-\d\d)?$/;

/** @throws SignetError LIMIT_EXCEEDED if there are more rows than a response may have */
function allOf(rows: readonly DayOfUsage[]): readonly DayOfUsage[] {
  if (rows.length > ROWS_MAX) {
    throw new SignetError("LIMIT_EXCEEDED", {
      detail: `The span has more than ${ROWS_MAX} rows. Read it in pages, with \`limit\` and \`cursor\`.`,
    });
  }
  return rows;
}

export function registerUsageRoutes(server: SignetServer, { pool, clock }: AdminServices): void {
  server.get(
    "/admin/v1/usage",
    operation({
      id: "listUsage",
      tag: "tenants",
      operator: "read",
      summary: "Usage by tenant and day",
      description:
        "Returns exact counts of accepted events, deliveries and attempts for each tenant and UTC day that has any, in this order. With `limit`, the response is a page. Without it, the response has all rows, and a span with more than 100,000 is rejected. With `format=csv`, the response is CSV with a header line, always of all rows.",
      querystring: Closed({ tenant_id: Type.Optional(Id("tenant")), ...UsageQuery, ...Pages }),
      errors: ["LIMIT_EXCEEDED"],
      response: { 200: Page(Usage) },
      csvExample: CSV_EXAMPLE,
    }),
    async (request, reply) => {
      const { query } = request;
      const span = usageSpan(query, clock.now());
      const tenantId = query.tenant_id ?? null;
      if (query.limit === undefined && query.cursor === undefined) {
        const rows = await readUsage(pool, tenantId === null ? null : [tenantId], {
          ...span,
          limit: ROWS_MAX + 1,
        });
        return await sendUsage(reply, { rows: allOf(rows), next: null }, query.format);
      }
      if (query.format === "csv") {
        const detail = "has no pages: omit `limit` and `cursor`";
        throw invalidParameters([{ pointer: "/format", code: "combination", detail }]);
      }
      const page = readPage(request, (key) => PLACE.test(key));
      const [after = "", afterDay = ""] = (page.before ?? "").split("/");
      const { rows, next } = await readUsagePage(pool, tenantId, {
        ...span,
        after: [after, afterDay],
        limit: page.limit,
      });
      const key = next === null ? null : next.join("/");
      return await sendUsage(reply, { rows, next: nextCursor({ next: key }, page) }, query.format);
    },
  );
}
