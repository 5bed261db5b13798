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

/** Start calls may take this many times what they take on an idle system before the rate goes down. */
const STRAIN = 2;
/** Below this no start call is slow, whatever it takes on an idle system: one wait for a disk is no strain. */
const STRAIN_MIN_MS = 25;
const SLOWER = 0.8;
const FASTER = 1.05;
/**
 * The rate never falls below this share of what is allowed: lists twice as long save half of the starts, ever longer
 * ones little more, and cost everybody latency.
 */
const FLOOR = 0.5;
/** Weight of the newest start in what starts take now; several slow ones in a row are strain, one is chance. */
const NOW_WEIGHT = 0.2;
/** Weight of the newest start in what starts take on an idle system. */
const IDLE_WEIGHT = 0.02;

export class StartRate {
  readonly #burst: number;
  #allowed: number;
  #perSecond: number;
  #tokens: number;
  #countedAtMs: number;
  #idleMs: number | undefined;
  #nowMs: number | undefined;

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
      this.#idleMs = smoothed(this.#idleMs, tookMs, IDLE_WEIGHT);
    }
    this.#nowMs = smoothed(this.#nowMs, tookMs, NOW_WEIGHT);
    const strained =
      this.#idleMs !== undefined && this.#nowMs > Math.max(STRAIN_MIN_MS, STRAIN * this.#idleMs);
    const rate = this.#perSecond * (strained ? SLOWER : FASTER);
    this.#perSecond = Math.min(this.#allowed, Math.max(this.#allowed * FLOOR, rate));
  }

  #count(nowMs: number): void {
    const passedMs = Math.max(0, nowMs - this.#countedAtMs);
    this.#tokens = Math.min(this.#burst, this.#tokens + (passedMs / 1_000) * this.#perSecond);
    this.#countedAtMs = nowMs;
  }
}

/** The value, moved towards the newest one. */
function smoothed(before: number | undefined, newest: number, weight: number): number {
  return before === undefined ? newest : before + weight * (newest - before);
}
