/** Tells the log once when tokens begin to be refused because nobody can say whether they are revoked, and when that ends. */
import type { Clock } from "../domain/clock.ts";
import type { Logger } from "../observability/logger.ts";
import { metrics } from "../observability/metrics.ts";

export interface StaleReport {
  /** A request was refused. */
  refused(): void;
  /** A request was admitted. Called with every request: costs a comparison. */
  admitted(): void;
}

/** One for each process. Every refusal is counted (`signet_revocation_stale_total`); the log has one line for all. */
export function createStaleReport({
  clock,
  log,
}: {
  readonly clock: Clock;
  readonly log: Logger;
}): StaleReport {
  let refused = 0;
  let sinceMs = 0;
  return {
    refused: () => {
      metrics.revocationStale.inc();
      if (refused === 0) {
        sinceMs = clock.now();
        log.error("tokens are refused: revocations cannot be known at the moment");
      }
      refused += 1;
    },
    admitted: () => {
      if (refused > 0) {
        log.warn({ refused, duration_ms: clock.now() - sinceMs }, "tokens are admitted again");
        refused = 0;
      }
    },
  };
}
