/** The stream of changing deliveries (contract 4.11). */
import { TOKEN_LIFETIME_SECONDS } from "#domain/identity.ts";
import type { RevocableToken } from "#revocation/deny-list.ts";
import {
  EVENT_STREAM,
  PositionHeaders,
  positionOf,
  sendDeliveries,
  type StreamingServices,
} from "../delivery-stream.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

const MS_PER_S = 1_000;

export function registerDeliveryStream(
  server: SignetServer,
  services: StreamingServices,
  isAdmitted: (identity: RevocableToken) => Promise<boolean>,
): void {
  server.addHook("preClose", async () => {
    await services.streams.close();
  });
  server.get(
    "/v1/webhooks/deliveries/stream",
    operation({
      id: "streamDeliveries",
      sdk: {
        name: "deliveries.stream",
        byHand: ["typescript"],
        missing: ["go", "python"],
        text: "Stream deliveries as they change from now on, or since `lastEventId`: of the tenant's newest 200, checked once a second. Each loop over it is a connection; ten at once per process of the service",
      },
      tag: "deliveries",
      scopes: ["webhooks:read"],
      summary: "Stream deliveries as they change",
      description:
        "Server-sent events. The first event is `ready`: the stream reports changes from then on. Each `delivery` event contains the current state of one of the tenant's newest 200 deliveries. They are checked once a second. Changes of older deliveries are not reported, and of several changes within a second only the last is. An `endpoint_health` event has the `endpoint_id` and the new `status` of an endpoint whose health has changed. At least every 5 seconds there is a comment line `:` with an `id`, which covers everything before it. Send this `id` as `Last-Event-ID` to continue with a new stream, from any process. The new stream first reports the deliveries that may have changed since, some of them possibly again. In its `ready`, `complete` is false if the newest 200 deliveries do not reach back that far. The last event is `end` with a `reason` (`expired`, `revoked`, `closing`); a stream ends with its token. A tenant may have 10 open streams per api process; further ones get 429.",
      documentedResponse: { type: "string", description: "Server-sent events" },
      responseType: EVENT_STREAM,
      responseExample: "event: ready\\ndata: {}\\n\\nid: 1763650000000\\n: still here\\n\\n",
      errors: ["RATE_LIMITED"],
      headers: PositionHeaders,
    }),
    async ({ identity, headers }, reply) => {
      const caller = {
        tenantId: identity.tenantId,
        endsAtMs: (identity.issuedAt + TOKEN_LIFETIME_SECONDS) * MS_PER_S,
        sinceMs: positionOf(headers),
        isAdmitted: async () => await isAdmitted(identity),
      };
      return await sendDeliveries(reply, caller, services);
    },
  );
}
