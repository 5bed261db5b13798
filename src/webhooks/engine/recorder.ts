/**
 * Writes outcomes in statements shared by concurrent senders. What is known is never lost to a database that is away:
 * a failed write is tried again from memory, and never causes another send (architecture 3).
 */
import type { Logger } from "pino";
import { type Batcher, createBatcher } from "../../database/batcher.ts";
import { isDataError } from "../../database/errors.ts";
import type { Pool } from "../../database/pool.ts";
import {
  type AttemptOutcome,
  type InFlightAttempt,
  recordInFlight,
  recordOutcomes,
} from "../../database/repositories/webhooks/attempts.ts";

const STATEMENT_ITEMS_MAX = 256;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const RETRY_FIRST_MS = 50;
const RETRY_MAX_MS = 2_000;

export interface Recorder {
  /** Resolves once the outcome is durable; false: the attempt had one before, which stays. */
  outcome(outcome: AttemptOutcome): Promise<boolean>;
  /** Resolves once the lease is durable. */
  inFlight(attempt: InFlightAttempt): Promise<void>;
  /** Resolves when all that was given is written. */
  drain(): Promise<void>;
}

export interface RecorderOptions {
  readonly pool: Pool;
  readonly log: Logger;
  /** Waits so many milliseconds; given so that tests need not. */
  readonly wait: (ms: number) => Promise<void>;
}

/** Runs a write until the database takes it, or refuses it for its content. */
async function persist<T>(write: () => Promise<T>, { wait, log }: RecorderOptions): Promise<T> {
  for (let delayMs = RETRY_FIRST_MS; ; delayMs = Math.min(RETRY_MAX_MS, delayMs * 2)) {
    try {
      return await write();
    } catch (error) {
      if (isDataError(error)) {
        throw error;
      }
      log.warn({ err: error, delay_ms: delayMs }, "outcomes could not be written; trying again");
      await wait(delayMs);
    }
  }
}

/**
 * One outcome that shared a refused statement. If PostgreSQL refuses it alone too, the receiver's text is the only
 * part that we did not make; the outcome itself must not be lost, or the delivery would be sent again and again.
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
        "an outcome was refused",
      );
    }
  }
  return true;
}

export function createRecorder(options: RecorderOptions): Recorder {
  const { pool, log } = options;

  const outcomes: Batcher<AttemptOutcome, boolean> = createBatcher<AttemptOutcome, boolean>({
    // As many as there are attempts under way, which hold their places until their outcomes are written.
    maxWaiting: Number.POSITIVE_INFINITY,
    maxItems: STATEMENT_ITEMS_MAX,
    maxInFlight: STATEMENTS_IN_FLIGHT_MAX,
    flush: async (items) => {
      try {
        return await persist(async () => await recordOutcomes(pool, items), options);
      } catch (error) {
        log.error({ err: error }, "a shared write was refused; writing one by one");
        const written: boolean[] = [];
        for (const item of items) {
          written.push(await recordAlone(item, options));
        }
        return written;
      }
    },
  });

  const leases = createBatcher<InFlightAttempt, undefined>({
    maxItems: STATEMENT_ITEMS_MAX,
    maxInFlight: STATEMENTS_IN_FLIGHT_MAX,
    flush: async (items) => {
      await recordInFlight(pool, items);
      return items.map(() => undefined);
    },
  });

  return {
    outcome: async (outcome) => await outcomes.add(outcome),
    inFlight: async (attempt) => {
      await leases.add(attempt);
    },
    drain: async () => {
      await outcomes.drain();
      await leases.drain();
    },
  };
}
