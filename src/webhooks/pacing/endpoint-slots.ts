/**
 * Concurrent requests per endpoint in the slow lane. An attempt that finds no slot waits for one if that is a matter of
 * moments. Otherwise it comes back later: after its place in the endpoint's queue times what a request takes. An attempt
 * that comes back goes first, or new ones would keep it waiting for ever.
 */
import { putBounded } from "../../domain/bounded-map.ts";

/** Longer waits are left to Temporal's timers. */
const WAIT_MAX_MS = 1_000;
/** The queue may turn out shorter than it looked: its endpoint recovers, another worker takes a part. */
const POSTPONE_MAX_MS = 60_000;
const SENT_AWAY_MAX = 10_000;

interface Queue {
  taken: number;
  /** Attempts that were sent away before. */
  readonly back: ((granted: boolean) => void)[];
  readonly waiting: ((granted: boolean) => void)[];
  /** When the last of those that were sent away will have had its turn, Unix milliseconds. */
  endsAtMs: number;
}

export class EndpointSlots {
  readonly #perEndpoint: number;
  readonly #queues = new Map<string, Queue>();
  readonly #sentAway = new Map<string, true>();

  constructor(perEndpoint: number) {
    this.#perEndpoint = perEndpoint;
  }

  /**
   * Takes a slot.
   *
   * @param attempt names the attempt: the same when it comes back
   * @param latencyMs what a request to the endpoint takes
   * @returns 0 with a slot, to be released; else the milliseconds after which to try again
   */
  async acquire(endpointId: string, attempt: string, latencyMs: number, nowMs: number): Promise<number> {
    const queue = this.#queue(endpointId);
    const isBack = this.#sentAway.delete(attempt);
    if (queue.taken < this.#perEndpoint) {
      queue.taken += 1;
      return 0;
    }
    const line = isBack ? queue.back : queue.waiting;
    const rounds = 1 + Math.floor((queue.back.length + queue.waiting.length) / this.#perEndpoint);
    if ((isBack || rounds * latencyMs <= WAIT_MAX_MS) && (await this.#wait(line))) {
      return 0;
    }
    putBounded(this.#sentAway, attempt, true, SENT_AWAY_MAX);
    if (!isBack) {
      queue.endsAtMs = Math.max(nowMs + latencyMs, queue.endsAtMs + latencyMs / this.#perEndpoint);
    }
    const postponeMs = Math.max(1, latencyMs, queue.endsAtMs - nowMs);
    return Math.min(POSTPONE_MAX_MS, Math.ceil(postponeMs));
  }

  release(endpointId: string): void {
    const queue = this.#queue(endpointId);
    const next = queue.back.shift() ?? queue.waiting.shift();
    if (next !== undefined) {
      next(true);
      return;
    }
    queue.taken -= 1;
    if (queue.taken === 0) {
      this.#queues.delete(endpointId);
    }
  }

  /** In line for a slot; false when it took longer than expected. */
  async #wait(line: ((granted: boolean) => void)[]): Promise<boolean> {
    return await new Promise<boolean>((resolve) => {
      const grant = (granted: boolean): void => {
        clearTimeout(timer);
        resolve(granted);
      };
      const timer = setTimeout(() => {
        line.splice(line.indexOf(grant), 1);
        resolve(false);
      }, WAIT_MAX_MS);
      line.push(grant);
    });
  }

  #queue(endpointId: string): Queue {
    let queue = this.#queues.get(endpointId);
    if (queue === undefined) {
      queue = { taken: 0, back: [], waiting: [], endsAtMs: 0 };
      this.#queues.set(endpointId, queue);
    }
    return queue;
  }
}
