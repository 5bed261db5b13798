/** Logs once when tokens are rejected because their revocation is unknown, and once when that has ended. */
import type { Clock } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";

export interface StaleReport {
  /** Call when a request was rejected. */
  refused(): void;
  /** Call when a request was admitted. Costs only a comparison. */
  admitted(): void;
}

/**
 * Creates a process's report. It counts every rejection (`signet_revocation_stale_total`), but logs one line for all.
 */
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
        log.error("tokens are rejected: revocations are currently unknown");
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
