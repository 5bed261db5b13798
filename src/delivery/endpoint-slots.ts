/**
 * Concurrent requests per endpoint in the slow lane. Who finds no slot waits for one if that is a matter of moments;
 * otherwise it is told when to come again: its place in the endpoint's queue times what a request takes.
 */

/** Longer waits are left to Temporal's timers. */
const WAIT_MAX_MS = 1_000;

interface Queue {
  taken: number;
  readonly waiting: ((granted: boolean) => void)[];
  /** When the last of those that were sent away will have had its turn, Unix milliseconds. */
  endsAtMs: number;
}

export class EndpointSlots {
  readonly #perEndpoint: number;
  readonly #queues = new Map<string, Queue>();

  constructor(perEndpoint: number) {
    this.#perEndpoint = perEndpoint;
  }

  /**
   * Takes a slot.
   *
   * @param latencyMs what a request to the endpoint takes
   * @returns 0 with a slot, to be released; else the milliseconds after which to try again
   */
  async acquire(endpointId: string, latencyMs: number, nowMs: number): Promise<number> {
    const queue = this.#queue(endpointId);
    if (queue.taken < this.#perEndpoint) {
      queue.taken += 1;
      return 0;
    }
    const rounds = 1 + Math.floor(queue.waiting.length / this.#perEndpoint);
    if (rounds * latencyMs <= WAIT_MAX_MS && (await this.#wait(queue))) {
      return 0;
    }
    return this.#postponeMs(queue, latencyMs, nowMs);
  }

  release(endpointId: string): void {
    const queue = this.#queue(endpointId);
    const next = queue.waiting.shift();
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
  async #wait(queue: Queue): Promise<boolean> {
    return await new Promise<boolean>((resolve) => {
      const grant = (granted: boolean): void => {
        clearTimeout(timer);
        resolve(granted);
      };
      const timer = setTimeout(() => {
        queue.waiting.splice(queue.waiting.indexOf(grant), 1);
        resolve(false);
      }, WAIT_MAX_MS);
      queue.waiting.push(grant);
    });
  }

  #postponeMs(queue: Queue, latencyMs: number, nowMs: number): number {
    const step = Math.max(1, latencyMs / this.#perEndpoint);
    queue.endsAtMs = Math.max(nowMs + latencyMs, queue.endsAtMs + step);
    return Math.max(1, Math.ceil(queue.endsAtMs - nowMs));
  }

  #queue(endpointId: string): Queue {
    let queue = this.#queues.get(endpointId);
    if (queue === undefined) {
      queue = { taken: 0, waiting: [], endsAtMs: 0 };
      this.#queues.set(endpointId, queue);
    }
    return queue;
  }
}
