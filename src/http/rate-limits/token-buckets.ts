/**
 * Token buckets by key, with a rate per second that is also the maximum burst. Synchronous and without garbage, since
 * every request uses them. The caller passes the time, in milliseconds.
 */
import { putBounded } from "../../domain/bounded-map.ts";

/** Maximum number of keys. The oldest is evicted first, and starts with a full bucket again. */
const KEYS_MAX = 50_000;

interface Bucket {
  tokens: number;
  atMs: number;
}

export class TokenBuckets {
  readonly #buckets = new Map<string, Bucket>();
  readonly #keysMax: number;

  constructor(keysMax: number = KEYS_MAX) {
    this.#keysMax = keysMax;
  }

  /** Takes a token. Returns 0 if there was one, otherwise the milliseconds until there is one. */
  take(key: string, perSecond: number, nowMs: number): number {
    const bucket = this.#filled(key, perSecond, nowMs);
    if (bucket.tokens < 1) {
      return Math.ceil(((1 - bucket.tokens) * 1_000) / perSecond);
    }
    bucket.tokens -= 1;
    return 0;
  }

  /** Takes additional tokens afterwards. The bucket may become negative, which delays the next request. */
  charge(key: string, count: number): void {
    const bucket = this.#buckets.get(key);
    if (bucket !== undefined) {
      bucket.tokens -= count;
    }
  }

  /** Returns the number of remaining tokens. */
  left(key: string): number {
    return Math.max(0, Math.floor(this.#buckets.get(key)?.tokens ?? 0));
  }

  #filled(key: string, perSecond: number, nowMs: number): Bucket {
    const bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      const fresh = { tokens: perSecond, atMs: nowMs };
      putBounded(this.#buckets, key, fresh, this.#keysMax);
      return fresh;
    }
    // If the clock was set back, add and remove nothing.
    const elapsedMs = Math.max(0, nowMs - bucket.atMs);
    bucket.tokens = Math.min(perSecond, bucket.tokens + (elapsedMs * perSecond) / 1_000);
    bucket.atMs = nowMs;
    return bucket;
  }
}
