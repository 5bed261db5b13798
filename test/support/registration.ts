/** Endpoint registrations for tests that call the service directly. */
import type { EndpointService } from "../../src/webhooks/endpoints/endpoint-service.ts";

type Registration = Parameters<EndpointService["register"]>[1];

/** Returns a registration for `inference.completed` with otherwise minimal settings, overridden by `settings`. */
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
