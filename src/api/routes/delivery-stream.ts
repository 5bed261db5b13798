/** The stream of changing deliveries (wire.md: server-sent events). */
import { TOKEN_LIFETIME_SECONDS } from "../../tokens/oauth/access-token.ts";
import type { RevocableToken } from "../../revocation/deny-list.ts";
import {
  EVENT_STREAM,
  PositionHeaders,
  positionOf,
  sendDeliveries,
  type StreamingServices,
} from "../delivery-stream.ts";
import type { SignetServer } from "../../http/types.ts";

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
