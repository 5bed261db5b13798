/**
 * How fast an endpoint that fails or is slow is tried again: so many attempts per second and no more, however fast it
 * refuses them. Without a pace, one receiver that is down takes every core from the deliveries of all others. Time is
 * an argument.
 */
import { putBounded } from "../../domain/bounded-map.ts";

/** A run waits so long inside its activity; longer waits are left to Temporal's timers. */
export const PACE_WAIT_MAX_MS = 1_000;
/** What is forgotten is paced anew. */
const ENDPOINTS_MAX = 10_000;
const PROMISES_MAX = 10_000;

export class EndpointPace {
  readonly #perSecond: number;
  /** When the endpoint's next attempt may start, Unix milliseconds. */
  readonly #freeAtMs = new Map<string, number>();
  /** Runs that were sent away, with the instant they were promised: who comes back does not queue again. */
  readonly #promises = new Map<string, number>();

  /** @param perSecond attempts per second and endpoint */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /**
   * Takes the next place in the endpoint's line for a run of attempts.
   *
   * @param run names the run: the same when it comes back
   * @param attempts how many it makes
   * @returns milliseconds until it may start; more than {@link PACE_WAIT_MAX_MS}: to be postponed by so much
   */
  reserve(endpointId: string, run: string, attempts: number, nowMs: number): number {
    const promisedMs = this.#promises.get(run);
    if (promisedMs !== undefined) {
      this.#promises.delete(run);
      return Math.min(PACE_WAIT_MAX_MS, Math.max(0, promisedMs - nowMs));
    }
    const startMs = Math.max(nowMs, this.#freeAtMs.get(endpointId) ?? 0);
    putBounded(this.#freeAtMs, endpointId, startMs + (attempts * 1_000) / this.#perSecond, ENDPOINTS_MAX);
    if (startMs - nowMs > PACE_WAIT_MAX_MS) {
      putBounded(this.#promises, run, startMs, PROMISES_MAX);
    }
    return Math.ceil(startMs - nowMs);
  }
}
