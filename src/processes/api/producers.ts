/** Wires the verification of producers' signatures for the api process. */
import { touchVersions } from "#database/repositories/tokens/clients.ts";
import { createProducerLookup } from "#database/repositories/tokens/producer-secrets.ts";
import { LastUsedRecorder } from "#tokens/oauth/last-used.ts";
import { type AdmitIdentity, ProducerAuthenticator } from "#tokens/producers/authenticate-producer.ts";
import { FailureLimiter } from "#http/rate-limits/failure-limiter.ts";
import { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import type { ApiProcessServices } from "./services.ts";

export interface Producers {
  readonly authenticator: ProducerAuthenticator;
  /** Writes records collected while answering. */
  close(): Promise<void>;
}

/** @param admit whether an identity is not revoked */
export function openProducers(
  { config, pools, keyring, clock, timers, log }: ApiProcessServices,
  admit: AdmitIdentity,
): Producers {
  const lastUsed = new LastUsedRecorder({
    timers,
    write: async (used) => await touchVersions(pools.issuer, "producer_secrets", used),
    clock,
    log,
  });
  const authenticator = new ProducerAuthenticator({
    find: createProducerLookup(pools.issuer, clock, timers),
    keyring,
    admit,
    failures: new FailureLimiter({
      count: config.tokenFailures,
      limit: "signature_failures",
      detail: "Too many invalid signatures.",
      monotonic: timers.monotonic,
    }),
    lookups: new FruitlessLookups(config.tokenRatePerAddress, timers.monotonic),
    lastUsed,
    certificateRequired: !config.development,
    headerBrand: config.headerBrand,
    clock,
  });
  return { authenticator, close: async () => await lastUsed.close() };
}
