/** Endpoint registrations for tests that call the service directly. */
import { settingsOf } from "#api/endpoint-settings.ts";
import type { EndpointService } from "#webhooks/endpoints/endpoint-service.ts";

type Registration = Parameters<EndpointService["register"]>[1];

/** Returns a registration for `inference.completed` with otherwise minimal settings, overridden by `settings`. */
export function registrationOf(url: string, settings: Partial<Omit<Registration, "url">> = {}): Registration {
  return {
    ...settingsOf({ url, events: ["inference.completed"] }),
    idempotency: null,
    ...settings,
  };
}
