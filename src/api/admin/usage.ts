/** Usage of all tenants. */
import { Type } from "typebox";
import { readUsage } from "../../database/repositories/webhooks/delivery-counts.ts";
import { SignetError } from "../../domain/errors.ts";
import { Closed, Id, List } from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";
import { operation } from "../openapi/operation.ts";
import { sendUsage, Usage, UsageQuery, usageSpan } from "../usage.ts";
import type { AdminServices } from "./services.ts";

/** Maximum number of rows in a response. */
const ROWS_MAX = 100_000;

export function registerUsageRoutes(server: SignetServer, { pool, clock }: AdminServices): void {
  server.get(
    "/admin/v1/usage",
    operation({
      id: "listUsage",
      tag: "tenants",
      operator: "read",
      summary: "Usage by tenant and day",
      description:
        "Returns exact counts of accepted events, deliveries and attempts for each tenant and UTC day that has any, in this order. With `format=csv`, the response is CSV with a header line. A span with more than 100,000 rows is rejected: ask for fewer days or for one tenant.",
      querystring: Closed({ tenant_id: Type.Optional(Id("tenant")), ...UsageQuery }),
      errors: ["LIMIT_EXCEEDED"],
      response: { 200: List(Usage) },
    }),
    async ({ query }, reply) => {
      const span = usageSpan(query, clock.now());
      const rows = await readUsage(pool, query.tenant_id ?? null, { ...span, limit: ROWS_MAX + 1 });
      if (rows.length > ROWS_MAX) {
        throw new SignetError("LIMIT_EXCEEDED", {
          detail: `The span has more than ${ROWS_MAX} rows. Ask for fewer days, or for one tenant.`,
        });
      }
      return await sendUsage(reply, rows, query.format);
    },
  );
}
