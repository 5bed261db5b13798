/**
 * Writes outcomes in statements shared by concurrent senders. A database outage loses no outcome: a failed write is
 * retried from memory and never causes another request.
 */
import type { Logger } from "pino";
import type { Timers } from "#domain/clock.ts";
import { type Batcher, createBatcher } from "#database/batcher.ts";
import { isDataError } from "#database/errors.ts";
import type { Pool } from "#database/pool.ts";
import {
  type AttemptOutcome,
  type InFlightAttempt,
  recordInFlight,
  recordOutcomes,
} from "#database/repositories/webhooks/attempts.ts";

const STATEMENT_ITEMS_MAX = 256;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const RETRY_FIRST_MS = 50;
const RETRY_MAX_MS = 2_000;

export interface RecorderOptions {
  readonly pool: Pool;
  readonly log: Logger;
  readonly timers: Timers;
}

/** Repeats a write until the database accepts it or rejects its content. */
async function persist<T>(write: () => Promise<T>, { timers, log }: RecorderOptions): Promise<T> {
  for (let delayMs = RETRY_FIRST_MS; ; delayMs = Math.min(RETRY_MAX_MS, delayMs * 2)) {
    try {
      return await write();
    } catch (error) {
      if (isDataError(error)) {
        throw error;
      }
      log.warn({ err: error, delay_ms: delayMs }, "outcomes could not be written; retrying");
      await timers.sleep(delayMs);
    }
  }
}

/**
 * Writes one outcome of a rejected statement. If PostgreSQL rejects it alone too, the receiver's text is dropped: it
 * is the only part that is not ours. Losing the outcome itself would send the delivery again and again.
 */
async function recordAlone(item: AttemptOutcome, options: RecorderOptions): Promise<boolean> {
  for (const candidate of [item, { ...item, responseBody: null }]) {
    try {
      const [written] = await persist(async () => await recordOutcomes(options.pool, [candidate]), options);
      return written === true;
    } catch (error) {
      const { tenantId, deliveryId, carrier, attempt } = item;
      options.log.error(
        { err: error, tenant_id: tenantId, delivery_id: deliveryId, carrier, attempt },
        "an outcome was rejected",
      );
    }
  }
  return true;
}

export class Recorder {
  readonly #outcomes: Batcher<AttemptOutcome, boolean>;
  readonly #leases: Batcher<InFlightAttempt, undefined>;

  constructor(options: RecorderOptions) {
    const { pool, timers, log } = options;
    this.#outcomes = createBatcher({
      timers,
      // Bounded by the attempts in progress, which hold their slots until their outcomes are written.
      maxWaiting: Number.POSITIVE_INFINITY,
      maxItems: STATEMENT_ITEMS_MAX,
      maxInFlight: STATEMENTS_IN_FLIGHT_MAX,
      flush: async (items) => {
        try {
          return await persist(async () => await recordOutcomes(pool, items), options);
        } catch (error) {
          log.error({ err: error }, "a shared write was rejected; writing one by one");
          const written: boolean[] = [];
          for (const item of items) {
            written.push(await recordAlone(item, options));
          }
          return written;
        }
      },
    });
    this.#leases = createBatcher({
      timers,
      maxItems: STATEMENT_ITEMS_MAX,
      maxInFlight: STATEMENTS_IN_FLIGHT_MAX,
      flush: async (items) => {
        await recordInFlight(pool, items);
        return items.map(() => undefined);
      },
    });
  }

  /** Resolves once the outcome is durable; false if the attempt already had one, which stays. */
  async outcome(outcome: AttemptOutcome): Promise<boolean> {
    return await this.#outcomes.add(outcome);
  }

  /** Resolves once the lease is durable. */
  async inFlight(attempt: InFlightAttempt): Promise<void> {
    await this.#leases.add(attempt);
  }

  /** Resolves when everything is written. */
  async drain(): Promise<void> {
    await this.#outcomes.drain();
    await this.#leases.drain();
  }
}
