/** Counts requests per window, in bounded memory of this process. */
import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";

/** Maximum keys per limiter, at most about 20 MB. The least recently used key is evicted first. */
const KEYS_MAX = 50_000;

export interface RateLimit {
  readonly count: number;
  readonly perSeconds: number;
}

/** Limits requests per key; a key's window begins with its first request. */
export interface RateLimiter {
  /** Counts a request of the key. Returns 0 if it is within the limit, otherwise the milliseconds to wait. */
  take(key: string): Promise<number>;
}

/**
 * The library's limiter with a bound on its keys, since clients can invent keys. An evicted key starts at zero again,
 * which can only admit requests.
 */
export class BoundedLimiter {
  readonly #limiter: RateLimiterMemory;
  readonly #keysMax: number;
  /** Keys ordered by last use. */
  readonly #order = new Set<string>();

  constructor({ count, perSeconds }: RateLimit, keysMax: number = KEYS_MAX) {
    this.#limiter = new RateLimiterMemory({ points: count, duration: perSeconds });
    this.#keysMax = keysMax;
  }

  /** Number of stored keys. */
  get size(): number {
    return this.#order.size;
  }

  /** Returns the key's count in its window. */
  async count(key: string): Promise<{ readonly counted: number; readonly waitMs: number }> {
    const found = this.#order.has(key) ? await this.#limiter.get(key) : null;
    // An expired record may still be present.
    return found === null || found.msBeforeNext <= 0
      ? { counted: 0, waitMs: 0 }
      : { counted: found.consumedPoints, waitMs: found.msBeforeNext };
  }

  /** Counts one request. Returns whether it is within the limit. */
  async add(
    key: string,
  ): Promise<{ readonly within: boolean; readonly counted: number; readonly waitMs: number }> {
    this.#touch(key);
    try {
      const { consumedPoints, msBeforeNext } = await this.#limiter.consume(key);
      return { within: true, counted: consumedPoints, waitMs: msBeforeNext };
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) {
        throw refusal;
      }
      return { within: false, counted: refusal.consumedPoints, waitMs: refusal.msBeforeNext };
    }
  }

  /** Sets the key's count for the given number of seconds. */
  async set(key: string, counted: number, seconds: number): Promise<void> {
    this.#touch(key);
    await this.#limiter.set(key, counted, seconds);
  }

  async forget(key: string): Promise<void> {
    if (this.#order.delete(key)) {
      await this.#limiter.delete(key);
    }
  }

  #touch(key: string): void {
    this.#order.delete(key);
    this.#order.add(key);
    const [oldest] = this.#order;
    if (this.#order.size > this.#keysMax && oldest !== undefined) {
      this.#order.delete(oldest);
      void this.#limiter.delete(oldest);
    }
  }
}

/** Creates a limiter; a limit of 0 admits everything. */
export function createRateLimiter(limit: RateLimit): RateLimiter {
  if (limit.count === 0) {
    return { take: async () => 0 };
  }
  const limiter = new BoundedLimiter(limit);
  return {
    take: async (key) => {
      const { within, waitMs } = await limiter.add(key);
      return within ? 0 : waitMs;
    },
  };
}
