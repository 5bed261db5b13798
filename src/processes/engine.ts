/** Wires the parts of the delivery engine for a worker process. */
import { randomBytes } from "node:crypto";
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import { type Config, formatListen } from "#config/config.ts";
import { workerVersion } from "#config/worker-versioning.ts";
import { createRandomPool } from "#crypto/random-pool.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pool } from "#database/pool.ts";
import { loadRequestSettings } from "#database/repositories/endpoints/endpoint-authentications.ts";
import { takeTurns } from "#database/repositories/webhooks/rate-limit-turns.ts";
import type { GuardedClock } from "#domain/clock.ts";
import { createGoneDisabler } from "#webhooks/endpoints/disable-failing.ts";
import { OwnDelay } from "#observability/own-delay.ts";
import type { ChallengeOptions } from "#webhooks/endpoints/challenge.ts";
import { GradeRunner } from "#webhooks/grader/grade-runner.ts";
import { configuredPolicy } from "#webhooks/sending/address-policy.ts";
import { pingsPerHost } from "#config/endpoint-settings.ts";
import { createContentMemory } from "#webhooks/sending/content-memory.ts";
import { AttemptService } from "#webhooks/engine/attempt-service.ts";
import { CarrierService } from "#webhooks/engine/carrier-service.ts";
import { CarrierStarter } from "#webhooks/engine/carrier-starter.ts";
import { createDeliveryFormats, type FormatOf } from "#webhooks/sending/delivery-format.ts";
import { sendDelivery } from "#webhooks/sending/delivery-sender.ts";
import { Dispatcher } from "#webhooks/engine/dispatcher.ts";
import { InFlightRequests } from "#webhooks/engine/in-flight-requests.ts";
import { EndpointFailures } from "#webhooks/pacing/endpoint-failures.ts";
import { EndpointHealth } from "#webhooks/pacing/endpoint-health.ts";
import { RateLimitQueues } from "#webhooks/pacing/rate-limit-queues.ts";
import { EndpointPace } from "#webhooks/pacing/endpoint-pace.ts";
import { EndpointSlots } from "#webhooks/pacing/endpoint-slots.ts";
import { createDeliveryOpener } from "#webhooks/ingest/event-content.ts";
import { createHostResolver } from "#webhooks/sending/http-resolver.ts";
import { HttpSender } from "#webhooks/sending/http-sender.ts";
import { createSecretOpener, type OpenSecrets } from "#webhooks/sending/open-secrets.ts";
import { ReceiverAccess } from "#webhooks/sending/receiver-access.ts";
import { createOwnAddresses, ownTargets } from "#webhooks/sending/own-listeners.ts";
import { Recorder } from "#webhooks/engine/recorder.ts";
import { Signer } from "#webhooks/sending/signer.ts";
import type { SetKeys } from "#webhooks/ssf/set.ts";
import { loadTargetAuthorities } from "#webhooks/sending/target-authorities.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface EngineOptions {
  /** This worker's id, written into claims. */
  readonly worker: string;
  readonly config: Config;
  /** signet_worker */
  readonly pool: Pool;
  readonly keyring: Keyring;
  /** Returns the key that signs security event tokens now. */
  readonly setKeys: SetKeys;
  readonly clock: GuardedClock;
  readonly log: Logger;
}

/** The sending path: address policy, connections, signatures. */
interface Outbound {
  readonly http: HttpSender;
  readonly access: ReceiverAccess;
  readonly signer: Signer;
  readonly openSecrets: OpenSecrets;
  readonly formatOf: FormatOf;
}

function createHttp({ config, clock, log }: EngineOptions): HttpSender {
  const { outboundProxy: proxy, targetCaFile } = config;
  if (proxy !== undefined) {
    // Without the credentials.
    log.warn(
      { proxy: formatListen({ host: proxy.hostname, port: proxy.port }) },
      "all requests to receivers leave through the proxy, which must check the addresses that it connects to",
    );
  }
  const own = ownTargets(config);
  // /etc/hosts is read for local development only.
  const resolver = createHostResolver({ hostsFile: config.development, timers: machineTimers });
  return new HttpSender({
    policy: configuredPolicy(config, own),
    clock,
    timers: machineTimers,
    resolver,
    ...(config.ownAddressesShared === "true"
      ? undefined
      : { isOwnAddress: createOwnAddresses(own.urls, { resolve: resolver, clock }) }),
    proxy: proxy ?? null,
    maxIdleConnections: config.idleConnections,
    ...(targetCaFile === undefined
      ? undefined
      : { extraCertificateAuthorities: loadTargetAuthorities(targetCaFile) }),
  });
}

function createOutbound(options: EngineOptions): Outbound {
  const { keyring, pool, clock, setKeys } = options;
  const { headerBrand, publicUrl: issuer } = options.config;
  const http = createHttp(options);
  const signer = new Signer({ headerBrand, docsUrl: `${issuer}/docs`, clock });
  const openSecrets = createSecretOpener(keyring, clock);
  return {
    http,
    access: new ReceiverAccess({
      http,
      clock,
      timers: machineTimers,
      load: async (tenantId, id) => await loadRequestSettings(pool, tenantId, id),
      open: async ({ data_key: dataKey, tenant_id: tenantId }, aad, sealed) =>
        (await keyring.openForTenant(dataKey, tenantId, aad, sealed)).toString("utf8"),
    }),
    signer,
    openSecrets,
    formatOf: createDeliveryFormats({ signer, openSecrets, setKeys, issuer, clock, randomBytes }),
  };
}

function createAttempts(
  options: EngineOptions,
  outbound: Outbound,
  { health, failures }: Pick<Engine, "health" | "failures">,
): AttemptService {
  const { worker, config, pool, keyring, clock, log } = options;
  const { deadLetterMs } = config;
  const recorder = new Recorder({ pool, timers: machineTimers, log });
  const openContent = createDeliveryOpener(keyring, createRandomPool());
  const sending = { ...outbound, openContent };
  return new AttemptService({
    worker,
    pool,
    inFlight: new InFlightRequests({
      send: async (delivery, attempt) => await sendDelivery(sending, delivery, attempt),
      recorder,
      health,
      failures,
      clock,
      disableGone: createGoneDisabler({ pool, keyring, clock, randomBytes, deadLetterMs, log }),
      randomBytes: createRandomPool(),
      log,
    }),
    health,
    slots: new EndpointSlots(config.endpointConcurrency, machineTimers),
    contentMemory: createContentMemory(pool, machineTimers),
    pace: new EndpointPace(config.failingEndpointRate),
    rateLimitQueues: new RateLimitQueues({
      takeTurns: async (requests, nowMs) => await takeTurns(pool, requests, nowMs),
      clock,
      timers: machineTimers,
    }),
    recorder,
    clock,
    timers: machineTimers,
  });
}

export class Engine {
  readonly attempts: AttemptService;
  readonly carriers: CarrierService;
  readonly health: EndpointHealth;
  readonly failures = new EndpointFailures();
  /** What sends the pings of registrations. */
  readonly pings: ChallengeOptions;
  readonly grades: GradeRunner;
  readonly #options: EngineOptions;
  readonly #http: HttpSender;
  readonly #ownDelay = new OwnDelay(machineTimers);

  /** @param onQueued called when this worker has added a delivery to the outbox */
  constructor(options: EngineOptions, onQueued: () => void) {
    const { config, pool, keyring, clock, log } = options;
    const { deadLetterMs, headerBrand } = config;
    const outbound = createOutbound(options);
    this.#options = options;
    this.#http = outbound.http;
    this.health = new EndpointHealth(() => this.#ownDelay.ms);
    this.attempts = createAttempts(options, outbound, this);
    this.carriers = new CarrierService({ pool, clock, randomBytes, log, onQueued });
    const sending = { ...outbound, pool, clock, randomBytes };
    this.pings = { ...sending, keyring, deadLetterMs, pingsPerHost: pingsPerHost(config) };
    this.grades = new GradeRunner({ ...sending, headerBrand, timers: machineTimers, log });
  }

  /** The dispatcher starts workflows, so it needs a client; the other parts do not. */
  createDispatcher(client: Client): Dispatcher {
    const { worker, config, pool, clock, log } = this.#options;
    const { retryWindowMs, deadLetterMs, claimsPerSecond, batchMax, retentionDays } = config;
    const random = Math.random;
    const eager = workerVersion(config) === undefined;
    return new Dispatcher({
      worker,
      pool,
      starter: new CarrierStarter({ client, random, retryWindowMs, deadLetterMs, eager }),
      attempts: this.attempts,
      health: this.health,
      clock,
      timers: machineTimers,
      randomBytes,
      log,
      claimsPerSecond,
      batchMax,
      retentionDays,
      underWayMax: config.sendConcurrency,
    });
  }

  /** Resolves when no request is in flight and every outcome is written. */
  async drain(): Promise<void> {
    this.#ownDelay.stop();
    await this.attempts.drain();
    await this.#http.close();
  }
}
