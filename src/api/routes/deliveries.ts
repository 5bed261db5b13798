/** Deliveries and their attempts (wire.md, Deliveries and dead letters). */
import { type Static, Type } from "typebox";
import type { DeliveryFilter } from "../../database/repositories/delivery-filter.ts";
import type { DeliveryService } from "../../delivery/delivery-service.ts";
import { querySpan } from "../instants.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, IdParams, Page } from "../schemas/common.ts";
import { Attempt, Delivery, DeliveryQuery, presentAttempt, presentDelivery } from "../schemas/deliveries.ts";
import type { SignetServer } from "../types.ts";

const TAGS = ["deliveries"];
const Query = Closed(DeliveryQuery);

/** The filters of a list's query, as the repository takes them. */
export function deliveryFilter(query: Static<typeof Query>): DeliveryFilter {
  return {
    endpointId: query.endpoint_id,
    eventId: query.event_id,
    eventType: query.event_type,
    state: query.state,
    ...querySpan(query),
    lastError: query.last_error,
    lastStatus: query.last_status,
    reason: query.reason,
    metadata: query.metadata,
  };
}

export function registerDeliveryRoutes(server: SignetServer, deliveries: DeliveryService): void {
  registerReads(server, deliveries);
  registerChanges(server, deliveries);
}

function registerReads(server: SignetServer, deliveries: DeliveryService): void {
  server.get(
    "/v1/webhooks/deliveries",
    {
      config: { scopes: ["webhooks:read"] },
      schema: { tags: TAGS, querystring: Query, response: { 200: Page(Delivery) } },
    },
    async (request) => {
      const page = readPage(request);
      const rows = await deliveries.list(request.identity.tenantId, {
        filter: deliveryFilter(request.query),
        before: page.before ?? undefined,
        limit: page.limit + 1,
      });
      return toPage(rows.map(presentDelivery), page);
    },
  );

  server.get(
    "/v1/webhooks/deliveries/:id",
    {
      config: { scopes: ["webhooks:read"] },
      schema: { tags: TAGS, params: IdParams("delivery"), response: { 200: Delivery } },
    },
    async ({ identity, params }) => presentDelivery(await deliveries.find(identity.tenantId, params.id)),
  );

  server.get(
    "/v1/webhooks/deliveries/:id/attempts",
    {
      config: { scopes: ["webhooks:read"] },
      schema: {
        tags: TAGS,
        params: IdParams("delivery"),
        response: { 200: Type.Object({ data: Type.Array(Attempt) }) },
      },
    },
    async ({ identity, params }) => ({
      data: (await deliveries.attempts(identity.tenantId, params.id)).map(presentAttempt),
    }),
  );
}

function registerChanges(server: SignetServer, deliveries: DeliveryService): void {
  server.post(
    "/v1/webhooks/deliveries/:id/retry",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: IdParams("delivery"), response: { 202: Delivery } },
    },
    async ({ identity, params }, reply) => {
      reply.code(202);
      return presentDelivery(await deliveries.retry(identity.tenantId, params.id));
    },
  );

  server.post(
    "/v1/webhooks/deliveries/:id/cancel",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: IdParams("delivery"), response: { 200: Delivery } },
    },
    async ({ identity, params }) => presentDelivery(await deliveries.cancel(identity.tenantId, params.id)),
  );
}
