/**
 * Adaptive rate of workflow starts with less than a full list (architecture 3). A lone delivery finds a token and
 * goes immediately. When tokens run out, deliveries wait for the next one together. The caller passes the time.
 */
import { TokenBucket } from "../../domain/token-buckets.ts";

export interface StartRateOptions {
  /** Maximum tokens per second for this process. */
  readonly perSecond: number;
  /** Maximum number of saved tokens. */
  readonly burst: number;
}

/** The rate goes down when start calls take this many times their duration on an idle system. */
const STRAIN = 2;
/** No start call below this counts as slow: a single wait for a disk is no strain. */
const STRAIN_MIN_MS = 25;
const SLOWER = 0.8;
const FASTER = 1.05;
/**
 * The rate never falls below this share of the limit. Lists twice as long save half of the starts. Even longer lists
 * save little more, and add latency for all.
 */
const FLOOR = 0.5;
/** Weight of the newest start in the current duration: several slow starts are strain, one is chance. */
const NOW_WEIGHT = 0.2;
/** Weight of the newest start in the duration on an idle system. */
const IDLE_WEIGHT = 0.02;

export class StartRate {
  readonly #burst: number;
  readonly #bucket: TokenBucket;
  #allowed: number;
  #perSecond: number;
  #idleMs: number | undefined;
  #nowMs: number | undefined;

  constructor({ perSecond, burst }: StartRateOptions, nowMs: number) {
    this.#burst = burst;
    this.#allowed = perSecond;
    this.#perSecond = perSecond;
    this.#bucket = new TokenBucket(burst, nowMs);
  }

  get perSecond(): number {
    return this.#perSecond;
  }

  /** Sets this process's share when the number of live workers changes. */
  allow(perSecond: number): void {
    this.#perSecond *= perSecond / this.#allowed;
    this.#allowed = perSecond;
  }

  /** Takes a token if one is available. */
  take(nowMs: number): boolean {
    return this.#bucket.take(this.#perSecond, this.#burst, nowMs) === 0;
  }

  /** Returns an unneeded token. */
  giveBack(): void {
    this.#bucket.charge(-1);
  }

  /** Returns the milliseconds until the next token; 0 if one is available. */
  waitMs(nowMs: number): number {
    return this.#bucket.waitMs(this.#perSecond, this.#burst, nowMs);
  }

  /**
   * Learns from the duration of a start. A call much slower than on an idle system shows that Temporal is busy.
   * Fewer, longer lists cost it less.
   *
   * @param alone whether no other start was in progress, so that the call measures an idle system
   */
  learn(tookMs: number, alone: boolean): void {
    if (alone) {
      this.#idleMs = smoothed(this.#idleMs, tookMs, IDLE_WEIGHT);
    }
    this.#nowMs = smoothed(this.#nowMs, tookMs, NOW_WEIGHT);
    const strained =
      this.#idleMs !== undefined && this.#nowMs > Math.max(STRAIN_MIN_MS, STRAIN * this.#idleMs);
    const rate = this.#perSecond * (strained ? SLOWER : FASTER);
    this.#perSecond = Math.min(this.#allowed, Math.max(this.#allowed * FLOOR, rate));
  }
}

/** Returns the value, moved towards the newest one. */
function smoothed(before: number | undefined, newest: number, weight: number): number {
  return before === undefined ? newest : before + weight * (newest - before);
}
