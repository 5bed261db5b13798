/** Remembers the ids of events, so that each is processed once. */

/**
 * Where ids are kept. Several processes that share one endpoint share one store; see docs/verify-webhooks.md for one in
 * Redis and one in SQL.
 */
export interface ReplayStore {
  /**
   * Remembers an id and says whether it was there already, in one atomic step: of two calls at once one gets false.
   *
   * @param untilMs Unix milliseconds until which it must be remembered
   */
  seen(id: string, untilMs: number): boolean | Promise<boolean>;
  /** Forgets an id whose event could not be processed, so that the next attempt is taken. */
  forget(id: string): void | Promise<void>;
}

export interface MemoryReplayStoreOptions {
  /** Ids kept at most; the oldest go first. 100,000. */
  readonly max?: number;
  /** Unix milliseconds; `Date.now` unless said otherwise. */
  readonly now?: () => number;
}

const DEFAULT_MAX = 100_000;

/** For one process. What it remembers ends with that. */
export class MemoryReplayStore implements ReplayStore {
  readonly #until = new Map<string, number>();
  readonly #max: number;
  readonly #now: () => number;

  /** @throws TypeError when `max` is not a positive whole number */
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
    // To the end of the order, which is that of going.
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
