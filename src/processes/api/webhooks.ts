/** Wires the services of the webhook routes for the api process. */
import { randomBytes } from "node:crypto";
import type { Client } from "@temporalio/client";
import type { Config } from "#config/config.ts";
import { createRandomPool } from "#crypto/random-pool.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pepper } from "#crypto/pepper.ts";
import type { Pool } from "#database/pool.ts";
import { configuredPolicy } from "#webhooks/sending/address-policy.ts";
import { createContentKeys } from "#webhooks/ingest/content-keys.ts";
import { DeliveryService } from "#webhooks/engine/delivery-service.ts";
import { DeliveryStreams } from "#webhooks/engine/delivery-streams.ts";
import { EventService } from "#webhooks/ingest/event-service.ts";
import type { HandOver } from "#webhooks/ingest/hand-over.ts";
import { createIngest } from "#webhooks/ingest/ingest.ts";
import { ownTargets } from "#webhooks/sending/own-listeners.ts";
import { createPlatformPublishingAudit } from "#webhooks/ingest/platform-publishing.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import type { Cells } from "#domain/regions.ts";
import type { Clock } from "#domain/clock.ts";
import { EndpointService } from "#webhooks/endpoints/endpoint-service.ts";
import { createPacedVerification, createVerification } from "#webhooks/endpoints/verification.ts";
import { GradeService } from "#webhooks/grader/grade-service.ts";
import { EventTypeService } from "#webhooks/event-types/event-type-service.ts";
import type { Logger } from "#observability/logger.ts";
import { ReplayService } from "#webhooks/replay/replay-service.ts";
import { createReplayStarter } from "#webhooks/replay/replay-starter.ts";
import { PollService } from "#webhooks/ssf/poll.ts";
import type { SetKeys } from "#webhooks/ssf/set.ts";
import { StreamService, type StreamServiceOptions } from "#webhooks/ssf/stream-service.ts";
import type { TenantLimits } from "#http/rate-limits/tenant-limits.ts";
import { createDeadLetterExport } from "#api/routes/dead-letters.ts";
import type { SsfServices } from "#api/routes/ssf.ts";
import type { WebhookServices } from "#api/routes/webhooks.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface WebhookProcessServices {
  readonly config: Config;
  readonly pools: { readonly api: Pool; readonly ingest: Pool };
  readonly keyring: Keyring;
  readonly pepper: Pepper;
  readonly temporal: Client;
  readonly tenantLimits: TenantLimits;
  readonly cells: Cells | undefined;
  readonly setKeys: { readonly signingKey: SetKeys };
  readonly handOver?: HandOver | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

function createSsf(
  { config, pools, keyring, setKeys, clock, log }: WebhookProcessServices,
  services: Omit<StreamServiceOptions, "issuer">,
): SsfServices {
  return {
    streams: new StreamService({ ...services, issuer: config.publicUrl }),
    polls: new PollService({
      pool: pools.api,
      keyring,
      keys: () => setKeys.signingKey(),
      clock,
      keptMs: config.deadLetterMs,
      wait: machineTimers.sleep,
      log,
    }),
    publicUrl: config.publicUrl,
  };
}

function openVerification({ config, temporal }: WebhookProcessServices) {
  const verification = createVerification(temporal, Math.random);
  return createPacedVerification(verification, config.verificationsPerSecond, machineTimers);
}

export function createWebhooks(parts: WebhookProcessServices): WebhookServices & { drain(): Promise<void> } {
  const { config, pools, keyring, pepper, temporal, tenantLimits, clock, log } = parts;
  const policy = configuredPolicy(config, ownTargets(config));
  const verification = openVerification(parts);
  const registering = {
    pool: pools.api,
    keyring,
    checkUrl: (url: string) => policy.checkUrl(url),
    endpointsMax: async (tenantId: string) => (await tenantLimits.policyOf(tenantId)).limits.endpoints,
    headerBrand: config.headerBrand,
    clock,
    randomBytes,
    deadLetterMs: config.deadLetterMs,
  };
  const endpoints = new EndpointService({ ...registering, verification, log });
  const releaser = new Releaser(temporal, machineTimers, log);
  const reading = { pool: pools.api, keyring, releaser, clock, randomBytes };
  const replays = new ReplayService({
    pool: pools.api,
    keyring,
    starter: createReplayStarter(temporal),
    clock,
    randomBytes,
    log,
  });
  const ingest = createIngest({
    pool: pools.ingest,
    keys: createContentKeys({ keyring, clock }),
    clock,
    timers: machineTimers,
    randomBytes: createRandomPool(),
    keyBytes: randomBytes,
    deadLetterMs: config.deadLetterMs,
    handOver: parts.handOver,
  });
  const deliveries = new DeliveryService(reading);
  return {
    endpoints,
    events: new EventService(reading),
    deliveries,
    exportDeadLetters: createDeadLetterExport(deliveries, machineTimers),
    clock,
    streams: new DeliveryStreams(
      {
        list: async (tenantId, page) => await deliveries.list(tenantId, page),
        unhealthy: async (tenantId) => await endpoints.unhealthy(tenantId),
      },
      { clock, timers: machineTimers },
      (err) => log.warn({ err }, "streams: deliveries not read"),
    ),
    replays: { service: replays, pool: pools.api, pepper, clock, randomBytes },
    grades: new GradeService({ pool: pools.api, clock, randomBytes }),
    eventTypes: new EventTypeService({
      pool: pools.api,
      typesMax: async (tenantId) => (await tenantLimits.policyOf(tenantId)).limits.event_types,
      clock,
    }),
    ingest,
    endpointSecrets: { api: pools.api, keyring, pepper, clock, randomBytes },
    ssf: createSsf(parts, { ...registering, endpoints, replays }),
    ingestPool: pools.ingest,
    tenantLimits,
    cells: parts.cells,
    notePlatformPublishing: createPlatformPublishingAudit(pools.api, { clock, randomBytes }),
    drain: async () => {
      verification.stop();
      await Promise.all([endpoints.drain(), releaser.drain(), replays.drain()]);
    },
  };
}
