/** Logs once when tokens are rejected because their revocation is unknown, and once when that has ended. */
import type { Clock } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";

/** A process's report. It counts every rejection (`signet_revocation_stale_total`), but logs one line for all. */
export class StaleReport {
  readonly #services: { readonly clock: Clock; readonly log: Logger };
  #refused = 0;
  #sinceMs = 0;

  constructor(services: { readonly clock: Clock; readonly log: Logger }) {
    this.#services = services;
  }

  /** Call when a request was rejected. */
  refused(): void {
    metrics.revocationStale.inc();
    if (this.#refused === 0) {
      this.#sinceMs = this.#services.clock.now();
      this.#services.log.error("tokens are rejected: revocations are currently unknown");
    }
    this.#refused += 1;
  }

  /** Call when a request was admitted. Costs only a comparison. */
  admitted(): void {
    if (this.#refused > 0) {
      const { clock, log } = this.#services;
      log.warn(
        { refused: this.#refused, duration_ms: clock.now() - this.#sinceMs },
        "tokens are admitted again",
      );
      this.#refused = 0;
    }
  }
}
