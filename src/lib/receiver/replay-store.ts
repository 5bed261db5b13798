/** Remembers the ids of events, so that each is processed once. */

/**
 * Stores ids. Processes that share an endpoint share a store; docs/verify-webhooks.md shows one in
 * Redis and one in SQL.
 */
export interface ReplayStore {
  /**
   * Remembers an id and returns whether it was known, atomically: of two concurrent calls one gets false.
   *
   * @param untilMs Unix milliseconds until which it must be remembered
   */
  seen(id: string, untilMs: number): boolean | Promise<boolean>;
  /** Forgets an id whose event could not be processed, so that the next attempt is accepted. */
  forget(id: string): void | Promise<void>;
}

export interface MemoryReplayStoreOptions {
  /** Maximum number of ids; the oldest are dropped first. 100,000. */
  readonly max?: number;
  /** Unix milliseconds; `Date.now` by default. */
  readonly now?: () => number;
}

const DEFAULT_MAX = 100_000;

/** In-memory store for one process. */
export class MemoryReplayStore implements ReplayStore {
  readonly #until = new Map<string, number>();
  readonly #max: number;
  readonly #now: () => number;

  /** @throws TypeError if `max` is not a positive whole number */
  constructor({ max = DEFAULT_MAX, now = Date.now }: MemoryReplayStoreOptions = {}) {
    if (!Number.isSafeInteger(max) || max < 1) {
      throw new TypeError("max is a positive whole number");
    }
    this.#max = max;
    this.#now = now;
  }

  seen(id: string, untilMs: number): boolean {
    const known = this.#until.get(id);
    if (known !== undefined && known > this.#now()) {
      return true;
    }
    // Move to the end of the eviction order.
    this.#until.delete(id);
    const [oldest] = this.#until.keys();
    if (oldest !== undefined && this.#until.size >= this.#max) {
      this.#until.delete(oldest);
    }
    this.#until.set(id, untilMs);
    return false;
  }

  forget(id: string): void {
    this.#until.delete(id);
  }
}
