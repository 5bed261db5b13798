/** What an endpoint is registered with where a test calls the service itself. */
import type { EndpointService } from "../../src/webhooks/endpoints/endpoint-service.ts";

type Registration = Parameters<EndpointService["register"]>[1];

/** An endpoint that takes `inference.completed` and asks for nothing else, unless `settings` say otherwise. */
export function registrationOf(url: string, settings: Partial<Omit<Registration, "url">> = {}): Registration {
  return {
    url,
    eventTypes: ["inference.completed"],
    metadata: null,
    description: null,
    filter: null,
    requireEcho: false,
    rateLimit: null,
    idempotency: null,
    ...settings,
  };
}
