/**
 * Limits the attempts per second to an endpoint that fails or is slow, however fast it refuses them. Without this
 * limit, one receiver that is down takes every core from all other deliveries. The caller passes the time.
 */
import { putBounded } from "#domain/bounded-map.ts";

/** Longest wait of a run inside its activity. Temporal's timers cover longer waits. */
export const PACE_WAIT_MAX_MS = 1_000;
/** An evicted endpoint starts with a fresh pace. */
const ENDPOINTS_MAX = 10_000;
const PROMISES_MAX = 10_000;

export class EndpointPace {
  readonly #perSecond: number;
  /** When the endpoint's next attempt may start, Unix milliseconds. */
  readonly #freeAtMs = new Map<string, number>();
  /** Start times promised to postponed runs. A returning run does not queue again. */
  readonly #promises = new Map<string, number>();

  /** @param perSecond attempts per second and endpoint */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /**
   * Reserves the endpoint's next start time for a run of attempts.
   *
   * @param run name of the run, stable across its returns
   * @param attempts number of attempts in the run
   * @returns milliseconds until the run may start; postpone the run if this exceeds {@link PACE_WAIT_MAX_MS}
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
