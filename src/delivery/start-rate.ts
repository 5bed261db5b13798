/**
 * How often workflows may be started for less than a full list: a token bucket (architecture 3). A lone delivery finds
 * a token and goes at once; when tokens run out, deliveries wait for the next one together. Time is an argument.
 */

export interface StartRateOptions {
  /** Tokens per second that this process may use at most. */
  readonly perSecond: number;
  /** Most tokens saved up. */
  readonly burst: number;
}

/** The start call may take this many times what it takes on an idle system before the rate goes down. */
const STRAIN = 2;
const SLOWER = 0.8;
const FASTER = 1.05;
/** The rate never falls below this share of what is allowed. */
const FLOOR = 0.1;
const SMOOTHING = 0.1;

export class StartRate {
  readonly #burst: number;
  #allowed: number;
  #perSecond: number;
  #tokens: number;
  #countedAtMs: number;
  #idleMs: number | undefined;

  constructor({ perSecond, burst }: StartRateOptions, nowMs: number) {
    this.#burst = burst;
    this.#allowed = perSecond;
    this.#perSecond = perSecond;
    this.#tokens = burst;
    this.#countedAtMs = nowMs;
  }

  get perSecond(): number {
    return this.#perSecond;
  }

  /** This process's share, when the number of live workers has changed. */
  allow(perSecond: number): void {
    this.#perSecond *= perSecond / this.#allowed;
    this.#allowed = perSecond;
  }

  /** Takes a token if there is one. */
  take(nowMs: number): boolean {
    this.#count(nowMs);
    if (this.#tokens < 1) {
      return false;
    }
    this.#tokens -= 1;
    return true;
  }

  /** Gives back a token that was not needed. */
  giveBack(): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + 1);
  }

  /** Milliseconds until there is a token; 0 when there is one. */
  waitMs(nowMs: number): number {
    this.#count(nowMs);
    return this.#tokens >= 1 ? 0 : Math.ceil(((1 - this.#tokens) / this.#perSecond) * 1_000);
  }

  /**
   * Learns from a start: a call that takes much longer than on an idle system says that Temporal is busy, and fewer,
   * longer lists cost it less.
   *
   * @param alone whether no other start was under way, so that the call shows what an idle system takes
   */
  learn(tookMs: number, alone: boolean): void {
    if (alone) {
      this.#idleMs =
        this.#idleMs === undefined || tookMs < this.#idleMs
          ? tookMs
          : this.#idleMs + SMOOTHING * (Math.min(tookMs, this.#idleMs * STRAIN) - this.#idleMs);
    }
    const strained = this.#idleMs !== undefined && tookMs > STRAIN * this.#idleMs;
    const rate = this.#perSecond * (strained ? SLOWER : FASTER);
    this.#perSecond = Math.min(this.#allowed, Math.max(this.#allowed * FLOOR, rate));
  }

  #count(nowMs: number): void {
    const passedMs = Math.max(0, nowMs - this.#countedAtMs);
    this.#tokens = Math.min(this.#burst, this.#tokens + (passedMs / 1_000) * this.#perSecond);
    this.#countedAtMs = nowMs;
  }
}
