/** Limits of the form "at most n per window" per key. A window begins with its key's first request. */
import { putBounded } from "./bounded-map.ts";

/**
 * Maximum keys, at most about 20 MB, since clients can invent keys. The least recently counted key is evicted first. It
 * starts at zero again, which can only admit requests.
 */
const KEYS_MAX = 50_000;

export interface FixedWindowLimit {
  /** Requests per window; 0 for no limit. */
  readonly count: number;
  readonly perMs: number;
}

interface Window {
  counted: number;
  readonly endsAtMs: number;
}

export class FixedWindows {
  readonly #limit: FixedWindowLimit;
  readonly #keysMax: number;
  readonly #windows = new Map<string, Window>();

  constructor(limit: FixedWindowLimit, keysMax: number = KEYS_MAX) {
    this.#limit = limit;
    this.#keysMax = keysMax;
  }

  /**
   * Counts a request of the key. Returns 0 if it is within the limit, otherwise the milliseconds to wait.
   *
   * @param times how many times the limit the key may have
   */
  take(key: string, nowMs: number, times = 1): number {
    const { count, perMs } = this.#limit;
    if (count === 0) {
      return 0;
    }
    const window = this.#current(key, nowMs) ?? { counted: 0, endsAtMs: nowMs + perMs };
    window.counted += 1;
    putBounded(this.#windows, key, window, this.#keysMax);
    return window.counted <= count * times ? 0 : window.endsAtMs - nowMs;
  }

  /** Returns the number of the key's requests in its window. */
  counted(key: string, nowMs: number): number {
    return this.#current(key, nowMs)?.counted ?? 0;
  }

  /** Checks whether the next request of the key exceeds the limit. */
  isUsedUp(key: string, nowMs: number, times = 1): boolean {
    return this.#limit.count > 0 && this.counted(key, nowMs) >= this.#limit.count * times;
  }

  /** Starts a window of the key that ends at the given time and already has this count. */
  set(key: string, counted: number, endsAtMs: number): void {
    putBounded(this.#windows, key, { counted, endsAtMs }, this.#keysMax);
  }

  forget(key: string): void {
    this.#windows.delete(key);
  }

  #current(key: string, nowMs: number): Window | undefined {
    const window = this.#windows.get(key);
    return window !== undefined && nowMs < window.endsAtMs ? window : undefined;
  }
}
