/**
 * Token buckets by key: so many per second, and as many at once. Synchronous and without garbage, for what every request
 * passes. Time is an argument, milliseconds.
 */
import { putBounded } from "../../domain/bounded-map.ts";

/** Keys remembered; the one that came first goes first, and counts anew. */
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

  /** Takes one: 0 when there was one, else the milliseconds until there is one. */
  take(key: string, perSecond: number, nowMs: number): number {
    const bucket = this.#filled(key, perSecond, nowMs);
    if (bucket.tokens < 1) {
      return Math.ceil(((1 - bucket.tokens) * 1_000) / perSecond);
    }
    bucket.tokens -= 1;
    return 0;
  }

  /** Takes what has turned out to be more than one: the bucket may owe it, and who comes next waits. */
  charge(key: string, count: number): void {
    const bucket = this.#buckets.get(key);
    if (bucket !== undefined) {
      bucket.tokens -= count;
    }
  }

  /** How many are left. */
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
    // A clock that was set back gives nothing, and takes nothing.
    const elapsedMs = Math.max(0, nowMs - bucket.atMs);
    bucket.tokens = Math.min(perSecond, bucket.tokens + (elapsedMs * perSecond) / 1_000);
    bucket.atMs = nowMs;
    return bucket;
  }
}
