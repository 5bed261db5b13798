/** The dead-letter queue and replay (specification 3 and 4). */
import type { DeadLetter, DeliveryService } from "../../delivery/delivery-service.ts";
import { callerOf } from "../caller.ts";
import { readPage, toPage } from "../pagination.ts";
import { JSON_TYPE, rawPage, withRawMember } from "../raw-json.ts";
import { Closed, IdParams, Page } from "../schemas/common.ts";
import {
  DeadLetter as DeadLetterSchema,
  Delivery,
  DeliveryQuery,
  presentDelivery,
} from "../schemas/deliveries.ts";
import type { SignetServer } from "../types.ts";
import { deliveryFilter } from "./deliveries.ts";
import { wireEvent } from "./events.ts";

const TAGS = ["dead letters"];

function wireDeadLetter({ delivery, event }: DeadLetter): string {
  const wire = { ...presentDelivery(delivery), reason: delivery.reason };
  return withRawMember(wire, "event", event === null ? "null" : wireEvent(event));
}

export function registerDeadLetterRoutes(server: SignetServer, deliveries: DeliveryService): void {
  server.get(
    "/v1/webhooks/dlq",
    {
      config: { scopes: ["webhooks:read"] },
      schema: { tags: TAGS, querystring: Closed(DeliveryQuery), response: { 200: Page(DeadLetterSchema) } },
    },
    async (request, reply) => {
      const page = readPage(request);
      const rows = await deliveries.deadLetters(request.identity.tenantId, {
        filter: deliveryFilter(request.query),
        before: page.before ?? undefined,
        limit: page.limit + 1,
      });
      const { data, next_cursor: next } = toPage(rows, page);
      return await reply.type(JSON_TYPE).send(rawPage(data.map(wireDeadLetter), next) as never);
    },
  );

  server.get(
    "/v1/webhooks/dlq/:id",
    {
      config: { scopes: ["webhooks:read"] },
      schema: { tags: TAGS, params: IdParams("delivery"), response: { 200: DeadLetterSchema } },
    },
    async ({ identity, params }, reply) => {
      const deadLetter = await deliveries.deadLetter(identity.tenantId, params.id);
      return await reply.type(JSON_TYPE).send(wireDeadLetter(deadLetter) as never);
    },
  );

  server.post(
    "/v1/webhooks/dlq/:id/replay",
    {
      config: { scopes: ["webhooks:replay"] },
      schema: { tags: TAGS, params: IdParams("delivery"), response: { 202: Delivery } },
    },
    async (request, reply) => {
      const { identity, params } = request;
      reply.code(202);
      return presentDelivery(await deliveries.replay(identity.tenantId, params.id, callerOf(request)));
    },
  );
}
