/**
 * Limits of the form "n per second". Synchronous and without garbage, since every request uses them. The caller passes
 * the time, in milliseconds.
 */
import { putBounded } from "./bounded-map.ts";

/** Maximum number of keys. The oldest is evicted first, and starts with a full bucket again. */
const KEYS_MAX = 50_000;

export class TokenBucket {
  #tokens: number;
  #atMs: number;

  /** Creates a full bucket. */
  constructor(burst: number, nowMs: number) {
    this.#tokens = burst;
    this.#atMs = nowMs;
  }

  /** The number of remaining tokens. */
  get left(): number {
    return Math.max(0, Math.floor(this.#tokens));
  }

  /** Adds the tokens of the time since the last call. Returns the milliseconds until there is one, 0 if there is. */
  waitMs(perSecond: number, burst: number, nowMs: number): number {
    // If the clock was set back, add and remove nothing.
    const elapsedMs = Math.max(0, nowMs - this.#atMs);
    this.#tokens = Math.min(burst, this.#tokens + (elapsedMs * perSecond) / 1_000);
    this.#atMs = nowMs;
    return this.#tokens < 1 ? Math.ceil(((1 - this.#tokens) * 1_000) / perSecond) : 0;
  }

  /** Takes a token. Returns 0 if there was one, otherwise the milliseconds until there is one. */
  take(perSecond: number, burst: number, nowMs: number): number {
    const waitMs = this.waitMs(perSecond, burst, nowMs);
    this.#tokens -= waitMs === 0 ? 1 : 0;
    return waitMs;
  }

  /** Removes tokens. The bucket may become negative, which delays the next request. A negative count adds tokens. */
  charge(count: number): void {
    this.#tokens -= count;
  }
}

/** Token buckets by key, with a rate per second that is also the maximum burst. */
export class TokenBuckets {
  readonly #buckets = new Map<string, TokenBucket>();
  readonly #keysMax: number;

  constructor(keysMax: number = KEYS_MAX) {
    this.#keysMax = keysMax;
  }

  /** Takes a token. Returns 0 if there was one, otherwise the milliseconds until there is one. */
  take(key: string, perSecond: number, nowMs: number): number {
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = new TokenBucket(perSecond, nowMs);
      putBounded(this.#buckets, key, bucket, this.#keysMax);
    }
    return bucket.take(perSecond, perSecond, nowMs);
  }

  /** Takes additional tokens afterwards. */
  charge(key: string, count: number): void {
    this.#buckets.get(key)?.charge(count);
  }

  /** Returns the number of remaining tokens. */
  left(key: string): number {
    return this.#buckets.get(key)?.left ?? 0;
  }
}
