/** Everything about webhooks, in the order a tenant meets it. */
import type { DeliveryService } from "../../delivery/delivery-service.ts";
import type { EndpointService } from "../../endpoints/endpoint-service.ts";
import type { SignetServer } from "../types.ts";
import { registerDeadLetterRoutes } from "./dead-letters.ts";
import { registerDeliveryRoutes } from "./deliveries.ts";
import { registerEndpointRoutes } from "./endpoints.ts";
import { registerEventRoutes } from "./events.ts";
import type { PublishingServices } from "./publishing.ts";
import type { Pool } from "../../database/pool.ts";

export interface WebhookServices extends PublishingServices {
  /** signet_api */
  readonly api: Pool;
  readonly endpoints: EndpointService;
  readonly deliveries: DeliveryService;
}

export function registerWebhookRoutes(server: SignetServer, services: WebhookServices): void {
  registerEndpointRoutes(server, services.endpoints);
  registerEventRoutes(server, services);
  registerDeliveryRoutes(server, services.deliveries);
  registerDeadLetterRoutes(server, services.deliveries);
}
