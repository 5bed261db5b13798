/** Wires the verification of producers' signatures for the api process. */
import type { Config } from "#config/config.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pool } from "#database/pool.ts";
import { touchVersions } from "#database/repositories/tokens/clients.ts";
import { createProducerLookup } from "#database/repositories/tokens/producer-secrets.ts";
import type { Clock } from "#domain/clock.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import type { Logger } from "#observability/logger.ts";
import { LastUsedRecorder } from "#tokens/oauth/last-used.ts";
import { type AdmitIdentity, ProducerAuthenticator } from "#tokens/producers/authenticate-producer.ts";
import { FailureLimiter } from "#http/rate-limits/failure-limiter.ts";
import { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";

export interface ProducerServices {
  readonly config: Config;
  /** Role signet_issuer. */
  readonly pool: Pool;
  readonly keyring: Keyring;
  /** Whether an identity is not revoked. */
  readonly isAdmitted: AdmitIdentity;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Producers {
  readonly authenticator: ProducerAuthenticator;
  /** Writes records collected while answering. */
  close(): Promise<void>;
}

export function openProducers({
  config,
  pool,
  keyring,
  isAdmitted,
  clock,
  log,
}: ProducerServices): Producers {
  const lastUsed = new LastUsedRecorder({
    timers: machineTimers,
    write: async (used) => await touchVersions(pool, "producer_secrets", used),
    clock,
    log,
  });
  const authenticator = new ProducerAuthenticator({
    find: createProducerLookup(pool, clock, machineTimers),
    keyring,
    admit: isAdmitted,
    failures: new FailureLimiter({
      count: config.tokenFailures,
      limit: "signature_failures",
      detail: "Too many invalid signatures.",
      monotonic: machineTimers.monotonic,
    }),
    lookups: new FruitlessLookups(config.tokenRatePerAddress, machineTimers.monotonic),
    lastUsed,
    certificateRequired: !config.development,
    headerBrand: config.headerBrand,
    clock,
  });
  return { authenticator, close: async () => await lastUsed.close() };
}
