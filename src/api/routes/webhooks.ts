/** Registers all webhook routes, in reading order. */
import type { Clock } from "#domain/clock.ts";
import type { DeliveryStreams } from "#webhooks/engine/delivery-streams.ts";
import type { DeliveryService } from "#webhooks/engine/delivery-service.ts";
import type { EventService } from "#webhooks/ingest/event-service.ts";
import type { EndpointService } from "#webhooks/endpoints/endpoint-service.ts";
import type { EventTypeService } from "#webhooks/event-types/event-type-service.ts";
import type { GradeService } from "#webhooks/grader/grade-service.ts";
import type { SignetServer } from "#http/types.ts";
import {
  type DeadLetterExporting,
  type ExportDeadLetters,
  registerDeadLetterRoutes,
} from "./dead-letters.ts";
import { registerDeliveryStats } from "./delivery-stats.ts";
import { registerDeliveryRoutes } from "./deliveries.ts";
import { type EndpointSecretRouteServices, registerEndpointSecretRoutes } from "./endpoint-secrets.ts";
import { registerEndpointRoutes } from "./endpoints.ts";
import { registerEventTypeRoutes } from "./event-types.ts";
import { registerEventRoutes } from "./events.ts";
import { registerGradeRoutes } from "./grades.ts";
import type { PublishingServices } from "./publishing.ts";
import { registerSsfRoutes, type SsfServices } from "./ssf.ts";
import { registerUsage } from "./usage.ts";
import { registerReplayRoutes, type ReplayRouteServices } from "./replays.ts";

export interface WebhookServices extends PublishingServices {
  readonly endpoints: EndpointService;
  readonly events: EventService;
  readonly deliveries: DeliveryService;
  readonly streams: DeliveryStreams;
  readonly clock: Clock;
  readonly exportDeadLetters: ExportDeadLetters;
  readonly endpointSecrets: EndpointSecretRouteServices;
  readonly replays: ReplayRouteServices;
  readonly eventTypes: EventTypeService;
  readonly grades: GradeService;
  readonly ssf: SsfServices;
}

export function registerWebhookRoutes(
  server: SignetServer,
  services: WebhookServices,
  isAdmitted: DeadLetterExporting["isAdmitted"],
): void {
  registerEndpointRoutes(server, services.endpoints);
  registerEndpointSecretRoutes(server, services.endpointSecrets);
  registerGradeRoutes(server, services.grades);
  registerEventTypeRoutes(server, services.eventTypes);
  registerEventRoutes(server, services);
  registerDeliveryRoutes(server, services.deliveries);
  registerDeliveryStats(server, services.deliveries);
  registerUsage(server, services.deliveries, services.clock);
  registerDeadLetterRoutes(server, services.deliveries, {
    exportDeadLetters: services.exportDeadLetters,
    isAdmitted,
  });
  registerReplayRoutes(server, services.replays);
  registerSsfRoutes(server, services.ssf);
}
