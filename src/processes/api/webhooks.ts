/** Wires the services of the webhook routes for the api process. */
import { createRandomPool } from "#crypto/random-pool.ts";
import { configuredPolicy } from "#webhooks/sending/address-policy.ts";
import { ContentKeys } from "#webhooks/ingest/content-keys.ts";
import { DeliveryService } from "#webhooks/engine/delivery-service.ts";
import { DeliveryStreams } from "#webhooks/engine/delivery-streams.ts";
import { EventService } from "#webhooks/ingest/event-service.ts";
import { Ingest } from "#webhooks/ingest/ingest.ts";
import { ownTargets } from "#webhooks/sending/own-listeners.ts";
import { createPlatformPublishingAudit } from "#webhooks/ingest/platform-publishing.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import { EndpointService } from "#webhooks/endpoints/endpoint-service.ts";
import { createPacedVerification, createVerification } from "#webhooks/endpoints/verification.ts";
import { GradeService } from "#webhooks/grader/grade-service.ts";
import { EventTypeService } from "#webhooks/event-types/event-type-service.ts";
import { ReplayService } from "#webhooks/replay/replay-service.ts";
import { kickReplay } from "#webhooks/replay/replay-starter.ts";
import { PollService } from "#webhooks/ssf/poll.ts";
import { StreamService, type StreamServiceOptions } from "#webhooks/ssf/stream-service.ts";
import { createDeadLetterExport } from "#api/routes/dead-letters.ts";
import type { SsfServices } from "#api/routes/ssf.ts";
import type { WebhookServices } from "#api/routes/webhooks.ts";
import type { ApiProcessServices } from "./services.ts";

function createSsf(
  { config, pools, keyring, setKeys, clock, timers, log }: ApiProcessServices,
  options: StreamServiceOptions,
): SsfServices {
  return {
    streams: new StreamService(options),
    polls: new PollService({
      pool: pools.api,
      keyring,
      keys: () => setKeys.signingKey(),
      clock,
      keptMs: config.deadLetterMs,
      wait: timers.sleep,
      log,
    }),
    publicUrl: config.publicUrl,
  };
}

function openVerification({ config, temporal, timers }: ApiProcessServices) {
  const verification = createVerification(temporal, Math.random);
  return createPacedVerification(verification, config.verificationsPerSecond, timers);
}

function openIngest({ config, pools, keyring, handOver, clock, timers, randomBytes }: ApiProcessServices) {
  return new Ingest({
    pool: pools.ingest,
    keys: new ContentKeys({ keyring, clock }),
    clock,
    timers,
    randomBytes: createRandomPool(),
    keyBytes: randomBytes,
    deadLetterMs: config.deadLetterMs,
    handOver,
  });
}

export function createWebhooks(services: ApiProcessServices): WebhookServices & { drain(): Promise<void> } {
  const { config, pools, keyring, pepper, temporal, tenantLimits, clock, timers, randomBytes, log } =
    services;
  const policy = configuredPolicy(config, ownTargets(config));
  const verification = openVerification(services);
  const registering = {
    pool: pools.api,
    keyring,
    verification,
    issuer: config.publicUrl,
    checkUrl: (url: string) => policy.checkUrl(url),
    endpointsMax: async (tenantId: string) => (await tenantLimits.policyOf(tenantId)).limits.endpoints,
    headerBrand: config.headerBrand,
    clock,
    randomBytes,
    deadLetterMs: config.deadLetterMs,
    log,
  };
  const endpoints = new EndpointService(registering);
  const releaser = new Releaser(temporal, timers, log);
  const reading = { pool: pools.api, keyring, releaser, clock, randomBytes };
  const replays = new ReplayService({
    pool: pools.api,
    keyring,
    kick: async (job) => await kickReplay(temporal, job),
    clock,
    randomBytes,
    log,
  });
  const deliveries = new DeliveryService(reading);
  return {
    endpoints,
    events: new EventService(reading),
    deliveries,
    exportDeadLetters: createDeadLetterExport(deliveries, timers),
    clock,
    streams: new DeliveryStreams(
      {
        list: async (tenantId, page) => await deliveries.list(tenantId, page),
        unhealthy: async (tenantId) => await endpoints.unhealthy(tenantId),
      },
      services,
      (err) => log.warn({ err }, "streams: deliveries not read"),
    ),
    replays: { service: replays, pool: pools.api, pepper, clock, randomBytes },
    grades: new GradeService({ pool: pools.api, clock, randomBytes }),
    eventTypes: new EventTypeService({
      pool: pools.api,
      typesMax: async (tenantId) => (await tenantLimits.policyOf(tenantId)).limits.event_types,
      clock,
    }),
    ingest: openIngest(services),
    endpointSecrets: { api: pools.api, keyring, pepper, clock, randomBytes },
    ssf: createSsf(services, { ...registering, endpoints, replays }),
    ingestPool: pools.ingest,
    tenantLimits,
    cells: services.cells,
    notePlatformPublishing: createPlatformPublishingAudit(pools.api, services),
    drain: async () => {
      verification.stop();
      await Promise.all([endpoints.drain(), releaser.drain(), replays.drain()]);
    },
  };
}
