/** Deliveries and their attempts (contract 4.8). */
import { ATTEMPT_MAX } from "#domain/retry-schedule.ts";
import type { Static } from "typebox";
import type { DeliveryFilter } from "#database/repositories/webhooks/delivery-filter.ts";
import type { DeliveryService } from "#webhooks/engine/delivery-service.ts";
import { querySpan } from "#http/instants.ts";
import { callerOf } from "#http/caller.ts";
import { nextCursor, readPage, toPage } from "../pagination.ts";
import { Closed, IdParams, Page, PageQuery } from "#http/common.ts";
import { Attempt, Delivery, DeliveryQuery, toAttempt, toDelivery } from "../schemas/deliveries.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

const Query = Closed(DeliveryQuery);
/** The key of an attempt in a cursor: its cycle and its number. */
const ATTEMPT_PLACE = /^[1-9]\d{0,8}\.[1-9]\d{0,8}$/;

/** Converts the filters of a list's query for the repository. */
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
    operation({
      id: "listDeliveries",
      sdk: "deliveries.list",
      tag: "deliveries",
      scopes: ["webhooks:read"],
      summary: "List deliveries",
      description: "Newest first. A delivery sends one event to one endpoint.",
      querystring: Query,
      response: { 200: Page(Delivery) },
    }),
    async (request) => {
      const page = readPage(request);
      const found = await deliveries.list(request.identity.tenantId, {
        filter: deliveryFilter(request.query),
        before: page.before ?? undefined,
        limit: page.limit,
      });
      return { data: found.rows.map(toDelivery), next_cursor: nextCursor(found, page) };
    },
  );

  server.get(
    "/v1/webhooks/deliveries/:id",
    operation({
      id: "getDelivery",
      sdk: "deliveries.get",
      tag: "deliveries",
      scopes: ["webhooks:read"],
      summary: "Read a delivery",
      description:
        "`next_attempt_at` is the time of the next attempt; `last_error` says why the last one failed.",
      params: IdParams("delivery"),
      response: { 200: Delivery },
    }),
    async ({ identity, params }) => toDelivery(await deliveries.find(identity.tenantId, params.id)),
  );

  server.get(
    "/v1/webhooks/deliveries/:id/attempts",
    operation({
      id: "listAttempts",
      sdk: { name: "deliveries.attempts", pageSize: 100 },
      tag: "deliveries",
      scopes: ["webhooks:read"],
      summary: "List a delivery's attempts",
      description: "The requests of every cycle, oldest first, with the first 4 KiB of each response.",
      params: IdParams("delivery"),
      querystring: Closed(PageQuery),
      response: { 200: Page(Attempt) },
    }),
    async (request) => {
      const { identity, params } = request;
      const page = readPage(request, (key) => ATTEMPT_PLACE.test(key));
      const [cycle = 0, attempt = 0] = (page.before ?? "").split(".").map(Number);
      const rows = await deliveries.attempts(identity.tenantId, params.id, {
        after: { cycle, attempt },
        limit: page.limit + 1,
      });
      const { data, next_cursor: next } = toPage(rows, page, (row) => `${row.cycle}.${row.attempt}`);
      return { data: data.map(toAttempt), next_cursor: next };
    },
  );
}

function registerChanges(server: SignetServer, deliveries: DeliveryService): void {
  server.post(
    "/v1/webhooks/deliveries/:id/retry",
    operation({
      id: "retryDelivery",
      sdk: { name: "deliveries.retry", repeat: "never" },
      tag: "deliveries",
      scopes: ["webhooks:write"],
      summary: "Attempt a delivery now",
      description: "Makes the next scheduled attempt now; later attempts keep their times.",
      errors: ["INVALID_STATE"],
      params: IdParams("delivery"),
      response: { 202: Delivery },
    }),
    async ({ identity, params }, reply) => {
      reply.code(202);
      return toDelivery(await deliveries.retry(identity.tenantId, params.id));
    },
  );

  server.post(
    "/v1/webhooks/deliveries/:id/resend",
    operation({
      id: "resendDelivery",
      sdk: { name: "deliveries.resend", repeat: "never" },
      tag: "deliveries",
      scopes: ["webhooks:replay"],
      summary: "Resend a delivery",
      description: `Starts a new cycle of ${ATTEMPT_MAX} attempts for a \`DELIVERED\`, \`CANCELLED\` or \`EXPIRED\` delivery, with the same \`webhook-id\`. A receiver that removes duplicates by it ignores what it has processed.`,
      errors: ["INVALID_STATE"],
      params: IdParams("delivery"),
      response: { 202: Delivery },
    }),
    async (request, reply) => {
      const { identity, params } = request;
      reply.code(202);
      return toDelivery(await deliveries.resend(identity.tenantId, params.id, callerOf(request)));
    },
  );

  server.post(
    "/v1/webhooks/deliveries/:id/cancel",
    operation({
      id: "cancelDelivery",
      sdk: { name: "deliveries.cancel", repeat: "never" },
      tag: "deliveries",
      scopes: ["webhooks:write"],
      summary: "Cancel a delivery",
      description: "No more attempts are made. A request already in flight may still arrive.",
      errors: ["INVALID_STATE"],
      params: IdParams("delivery"),
      response: { 200: Delivery },
    }),
    async ({ identity, params }) => toDelivery(await deliveries.cancel(identity.tenantId, params.id)),
  );
}
