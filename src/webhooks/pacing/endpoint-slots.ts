/**
 * Limits concurrent requests per endpoint in the slow lane. An attempt without a slot waits if a slot should be free
 * within a second. Otherwise it returns later: after its queue position times the request duration. Returning
 * attempts go first, so that new ones cannot starve them.
 */
import type { Timers } from "#domain/clock.ts";
import { putBounded } from "#domain/bounded-map.ts";

/** Longest wait for a slot, in milliseconds. Temporal's timers cover longer waits. */
const WAIT_MAX_MS = 1_000;
/** The queue may be shorter than estimated: the endpoint recovers, or another worker takes a part. */
const POSTPONE_MAX_MS = 60_000;
const POSTPONED_MAX = 10_000;

interface Queue {
  taken: number;
  /** Attempts that were postponed before. */
  readonly returning: ((granted: boolean) => void)[];
  readonly waiting: ((granted: boolean) => void)[];
  /** Estimated turn of the last postponed attempt, in Unix milliseconds. */
  endsAtMs: number;
}

export class EndpointSlots {
  readonly #perEndpoint: number;
  readonly #timers: Timers;
  readonly #queues = new Map<string, Queue>();
  readonly #postponed = new Map<string, true>();

  constructor(perEndpoint: number, timers: Timers) {
    this.#timers = timers;
    this.#perEndpoint = perEndpoint;
  }

  /**
   * Acquires a slot.
   *
   * @param attempt name of the attempt, stable across its returns
   * @param latencyMs duration of a request to the endpoint, in milliseconds
   * @returns 0 with a slot, which the caller must release; otherwise milliseconds until the next try
   */
  async acquire(endpointId: string, attempt: string, latencyMs: number, nowMs: number): Promise<number> {
    const queue = this.#queue(endpointId);
    const returning = this.#postponed.delete(attempt);
    if (queue.taken < this.#perEndpoint) {
      queue.taken += 1;
      return 0;
    }
    const waiters = returning ? queue.returning : queue.waiting;
    const rounds = 1 + Math.floor((queue.returning.length + queue.waiting.length) / this.#perEndpoint);
    if ((returning || rounds * latencyMs <= WAIT_MAX_MS) && (await this.#wait(waiters))) {
      return 0;
    }
    putBounded(this.#postponed, attempt, true, POSTPONED_MAX);
    if (!returning) {
      queue.endsAtMs = Math.max(nowMs + latencyMs, queue.endsAtMs + latencyMs / this.#perEndpoint);
    }
    const postponeMs = Math.max(1, latencyMs, queue.endsAtMs - nowMs);
    return Math.min(POSTPONE_MAX_MS, Math.ceil(postponeMs));
  }

  release(endpointId: string): void {
    const queue = this.#queue(endpointId);
    const next = queue.returning.shift() ?? queue.waiting.shift();
    if (next !== undefined) {
      next(true);
      return;
    }
    queue.taken -= 1;
    if (queue.taken === 0) {
      this.#queues.delete(endpointId);
    }
  }

  /** Waits for a slot. Returns false on timeout. */
  async #wait(waiters: ((granted: boolean) => void)[]): Promise<boolean> {
    return await new Promise<boolean>((resolve) => {
      const grant = (granted: boolean): void => {
        this.#timers.cancel(timer);
        resolve(granted);
      };
      const timer = this.#timers.after(WAIT_MAX_MS, () => {
        waiters.splice(waiters.indexOf(grant), 1);
        resolve(false);
      });
      waiters.push(grant);
    });
  }

  #queue(endpointId: string): Queue {
    let queue = this.#queues.get(endpointId);
    if (queue === undefined) {
      queue = { taken: 0, returning: [], waiting: [], endsAtMs: 0 };
      this.#queues.set(endpointId, queue);
    }
    return queue;
  }
}
