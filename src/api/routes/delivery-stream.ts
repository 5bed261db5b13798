/** Deliveries as they change (wire.md: server-sent events). */
import { Type } from "typebox";
import { TOKEN_LIFETIME_SECONDS } from "../../oauth/access-token.ts";
import type { RevocableToken } from "../../revocation/deny-list.ts";
import { EVENT_STREAM, sendDeliveries, type StreamingServices } from "../delivery-stream.ts";
import type { SignetServer } from "../types.ts";

/** Sent by itself by what reads server-sent events, when it connects again (WHATWG HTML 9.2.4). */
const PositionHeaders = Type.Object({
  "last-event-id": Type.Optional(
    Type.String({
      pattern: "^[0-9]{1,15}$",
      description: "The `id` that an earlier stream was last told: goes on from there",
      examples: ["1763650000000"],
    }),
  ),
});

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
    {
      config: { scopes: ["webhooks:read"] },
      schema: {
        tags: ["deliveries"],
        headers: PositionHeaders,
        response: { 200: { description: EVENT_STREAM, type: "string" } },
      },
    },
    async ({ identity, headers }, reply) => {
      const position = headers["last-event-id"];
      const caller = {
        tenantId: identity.tenantId,
        endsAtMs: (identity.issuedAt + TOKEN_LIFETIME_SECONDS) * MS_PER_S,
        sinceMs: position === undefined ? undefined : Number(position),
        isAdmitted: async () => await isAdmitted(identity),
      };
      return await sendDeliveries(reply, caller, services);
    },
  );
}
