/**
 * Rate-limit queues of endpoints. Each attempt reserves an instant in its endpoint's queue, which all workers share
 * (docs/decisions/0019). Until then, its delivery waits in its workflow. The workflow passes the reservation to the
 * activity, so any worker can honour it. The caller passes the time.
 */
import type { TurnRequest, Turn } from "#database/repositories/webhooks/rate-limit-turns.ts";
import { createBatcher } from "#database/batcher.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import type { Reservation } from "#domain/reservation.ts";

/** Longest wait of an attempt inside its activity. Temporal's timers cover longer waits. */
export const RATE_LIMIT_WAIT_MAX_MS = 2_000;
/** Longest wait in a local activity, so that a high limit does not cause another round trip. */
export const FIRST_PASS_WAIT_MAX_MS = 100;
/** An attempt that is later than this has missed its reservation and gets a late one. */
export const LATE_MS = 500;
/** Timers fire late, so an attempt returns this long before its reservation. */
const LEAD_MS = 500;
/** An attempt with a longer wait checks again after a part of it, as the limit may have been raised. */
const NEAR_MS = 10_000;
const CHECK_FRACTION = 0.25;
const CHECK_MAX_MS = 300_000;
/** After a delay, a process may exceed the limit by this factor to catch up. */
const CATCH_UP = 1.1;
const RESERVED_MAX = 20_000;
const ENDPOINTS_MAX = 10_000;
const BATCH_MAX = 1_024;
const IN_FLIGHT_MAX = 2;

/** A request for a reservation. */
export interface ReservationRequest {
  readonly endpointId: string;
  /** Attempts per second. */
  readonly rateLimit: number;
  /** Name of the attempt, stable across repeated and concurrent calls. */
  readonly attempt: string;
  /** Reservation that the attempt already holds. */
  readonly kept: Reservation | undefined;
}

export interface RateLimitQueuesOptions {
  /** Takes the next instants of each queue. Each endpoint occurs at most once. */
  readonly takeTurns: (requests: readonly TurnRequest[], nowMs: number) => Promise<ReadonlyMap<string, Turn>>;
  readonly clock: Clock;
  readonly timers: Timers;
}

interface Ask {
  readonly endpointId: string;
  readonly rateLimit: number;
  readonly late: boolean;
}

export class RateLimitQueues {
  readonly #options: RateLimitQueuesOptions;
  /**
   * Recent reservations by attempt. A first attempt asks twice: from the process that starts its workflow, and from
   * its activity.
   */
  readonly #reserved = new Map<string, Promise<Reservation>>();
  /** When this process may send to the endpoint again, Unix milliseconds. */
  readonly #freeAtMs = new Map<string, number>();
  readonly #batcher;

  constructor(options: RateLimitQueuesOptions) {
    this.#options = options;
    this.#batcher = createBatcher({
      timers: options.timers,
      maxItems: BATCH_MAX,
      maxInFlight: IN_FLIGHT_MAX,
      flush: async (asks: readonly Ask[]) => await this.#take(asks),
    });
  }

  /**
   * Returns the attempt's reservation. Keeps the current one unless it was missed or the limit has changed.
   *
   * @throws if the database is unavailable
   */
  async reserve(request: ReservationRequest): Promise<Reservation> {
    const { rateLimit, attempt, kept } = request;
    if (kept !== undefined && this.#isValid(kept, rateLimit)) {
      return kept;
    }
    const pending = this.#reserved.get(attempt);
    const known = await pending;
    if (known !== undefined && this.#isValid(known, rateLimit)) {
      return known;
    }
    const newer = this.#reserved.get(attempt);
    // Another caller that missed it may have asked already.
    return await (newer === undefined || newer === pending ? this.#ask(request, known ?? kept) : newer);
  }

  /**
   * Spaces out the attempts of an endpoint that leave this process, including those that were delayed together.
   *
   * @returns milliseconds to wait
   */
  spacingMs(endpointId: string, rateLimit: number): number {
    const nowMs = this.#options.clock.now();
    const startMs = Math.max(nowMs, this.#freeAtMs.get(endpointId) ?? 0);
    putBounded(this.#freeAtMs, endpointId, startMs + 1_000 / (rateLimit * CATCH_UP), ENDPOINTS_MAX);
    return startMs - nowMs;
  }

  async #ask(
    { endpointId, rateLimit, attempt }: ReservationRequest,
    missed: Reservation | undefined,
  ): Promise<Reservation> {
    const late = missed?.rateLimit === rateLimit;
    const reservation = this.#batcher.add({ endpointId, rateLimit, late });
    putBounded(this.#reserved, attempt, reservation, RESERVED_MAX);
    reservation.catch(() => this.#reserved.delete(attempt));
    return await reservation;
  }

  #isValid(reservation: Reservation, rateLimit: number): boolean {
    return reservation.rateLimit === rateLimit && reservation.atMs >= this.#options.clock.now() - LATE_MS;
  }

  async #take(asks: readonly Ask[]): Promise<Reservation[]> {
    const queues = new Map<string, { rateLimit: number; fresh: number; late: number }>();
    const numbers = asks.map(({ endpointId, rateLimit, late }) => {
      const queue = queues.get(endpointId) ?? { rateLimit, fresh: 0, late: 0 };
      queues.set(endpointId, queue);
      // The rate limit that was loaded last is the current one.
      queue.rateLimit = rateLimit;
      const kind = late ? "late" : "fresh";
      queue[kind] += 1;
      return queue[kind] - 1;
    });
    const turns = await this.#options.takeTurns(
      [...queues].map(([endpointId, queue]) => ({ endpointId, ...queue })),
      this.#options.clock.now(),
    );
    return asks.map(({ endpointId, late }, index) => {
      const turn = turns.get(endpointId);
      const rateLimit = queues.get(endpointId)?.rateLimit;
      if (turn === undefined || rateLimit === undefined) {
        throw new Error(`no turn was returned for the rate-limit queue of ${endpointId}`);
      }
      const fromMs = late ? turn.lateFromMs : turn.freshFromMs;
      return { atMs: Math.ceil(fromMs + ((numbers[index] ?? 0) * 1_000) / rateLimit), rateLimit };
    });
  }
}

/**
 * Returns when to check reservations again: shortly before the near ones, and together for all others.
 *
 * @returns Unix milliseconds by index; undefined for an attempt without a reservation
 */
export function nextChecks(
  reservations: readonly (Reservation | undefined)[],
  nowMs: number,
): (number | undefined)[] {
  const far = reservations.flatMap((reservation) =>
    reservation !== undefined && reservation.atMs - nowMs > NEAR_MS ? [reservation.atMs - nowMs] : [],
  );
  const farMs = Math.min(CHECK_MAX_MS, Math.max(NEAR_MS, CHECK_FRACTION * Math.min(...far)));
  return reservations.map((reservation) => {
    if (reservation === undefined) {
      return undefined;
    }
    const waitMs = reservation.atMs - nowMs;
    return Math.floor(nowMs + Math.max(0, (waitMs > NEAR_MS ? farMs : waitMs) - LEAD_MS));
  });
}
