/** Counting requests in windows, in the memory of this process and within bounds. */
import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";

/** Keys remembered per limiter: some 20 MB at the worst. The one used longest ago is forgotten first. */
const KEYS_MAX = 50_000;

export interface RateLimit {
  readonly count: number;
  readonly perSeconds: number;
}

/** Counts per key; a key's window begins with its first request. */
export interface RateLimiter {
  /** Takes a place for the key: 0 when there was one, else the milliseconds until there is one again. */
  take(key: string): Promise<number>;
}

/**
 * The library's limiter with a bound on its keys, since anybody can make up keys. What is forgotten counts anew, which
 * only ever lets a request pass.
 */
export class BoundedLimiter {
  readonly #limiter: RateLimiterMemory;
  readonly #keysMax: number;
  /** Keys by last use. */
  readonly #order = new Set<string>();

  constructor({ count, perSeconds }: RateLimit, keysMax: number = KEYS_MAX) {
    this.#limiter = new RateLimiterMemory({ points: count, duration: perSeconds });
    this.#keysMax = keysMax;
  }

  /** Keys remembered. */
  get size(): number {
    return this.#order.size;
  }

  /** How often the key was counted in its window. */
  async count(key: string): Promise<{ readonly counted: number; readonly waitMs: number }> {
    const found = this.#order.has(key) ? await this.#limiter.get(key) : null;
    // A record that has just run out may still be there.
    return found === null || found.msBeforeNext <= 0
      ? { counted: 0, waitMs: 0 }
      : { counted: found.consumedPoints, waitMs: found.msBeforeNext };
  }

  /** Counts one; whether it is within the limit. */
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

  /** Sets the key's count for so many seconds. */
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

/** A limiter; a limit of 0 lets everything pass. */
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
