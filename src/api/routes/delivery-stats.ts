/** Statistics of deliveries (contract 4.11). */
import { Type } from "typebox";
import type { DeliveryService } from "#webhooks/engine/delivery-service.ts";
import { Closed, Nullable, Resource, Timestamp } from "#http/common.ts";
import { DeliveryQuery } from "../schemas/deliveries.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { presenter } from "#http/present.ts";

const Latency = Nullable(
  Type.Integer({ description: "Milliseconds from acceptance to acknowledgement; null without deliveries" }),
);

const Hour = Resource("DeliveryHour", {
  hour: Timestamp,
  total: Type.Integer({ description: "Deliveries accepted in this hour" }),
  delivered: Type.Integer(),
  dead_lettered: Type.Integer({ description: "Deliveries in the dead-letter queue, or expired there" }),
  attempts: Type.Integer({ description: "Attempts that ended in this hour" }),
  failed_attempts: Type.Integer(),
  latency_p50_ms: Latency,
  latency_p95_ms: Latency,
  complete: Type.Boolean({
    description: "False if the hour has more than 1,000 deliveries: the numbers then cover the newest 1,000",
  }),
});

/** The hours of a tenant or an endpoint. */
export const Stats = Resource("DeliveryStats", {
  data: Type.Array(Hour, { description: "24 hours, oldest first" }),
});

export const toHour = presenter(Hour);

export function registerDeliveryStats(server: SignetServer, deliveries: DeliveryService): void {
  server.get(
    "/v1/webhooks/stats",
    operation({
      id: "getDeliveryStats",
      sdk: "deliveries.stats",
      tag: "deliveries",
      scopes: ["webhooks:read"],
      summary: "Count the deliveries of the last 24 hours, by hour",
      description:
        "Returns volume, success, attempts and latency for all endpoints or for one. Counts are exact. Latencies of an hour with more than 1,000 deliveries cover the newest 1,000: `complete` is false. The numbers may be 30 seconds old.",
      querystring: Closed({ endpoint_id: DeliveryQuery.endpoint_id }),
      response: { 200: Stats },
    }),
    async ({ identity: { tenantId }, query: { endpoint_id: endpointId } }) => ({
      data: (await deliveries.stats({ tenantId, endpointId })).map(toHour),
    }),
  );
}
