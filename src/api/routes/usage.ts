/** Usage of the tenant (docs/observability.md). */
import type { DeliveryService } from "#webhooks/engine/delivery-service.ts";
import type { Clock } from "#domain/clock.ts";
import { Closed, List } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { operation } from "../openapi/operation.ts";
import { CSV_EXAMPLE, sendUsage, Usage, UsageQuery, usageSpan } from "../usage.ts";

export function registerUsage(server: SignetServer, deliveries: DeliveryService, clock: Clock): void {
  server.get(
    "/v1/usage",
    operation({
      id: "getUsage",
      sdk: {
        name: "deliveries.usage",
        without: ["format"],
        text: "Count the accepted events, deliveries and attempts of each UTC day that has any, oldest first",
      },
      tag: "deliveries",
      scopes: ["webhooks:read"],
      summary: "Read the usage by day",
      description:
        "Returns exact counts of accepted events, deliveries and attempts for each UTC day that has any, oldest first. They are kept as long as deliveries. With `format=csv`, the response is CSV with a header line.",
      querystring: Closed(UsageQuery),
      response: { 200: List(Usage) },
      csvExample: CSV_EXAMPLE,
    }),
    async ({ identity: { tenantId }, query }, reply) => {
      const rows = await deliveries.usage(tenantId, usageSpan(query, clock.now()));
      return await sendUsage(reply, { rows }, query.format);
    },
  );
}
