/** Spreads work over time, and over its owners, so that the many requests of one owner do not delay those of others. */
import type { Timer, Timers } from "#domain/clock.ts";
import { TokenBucket } from "#domain/token-buckets.ts";

export interface PacedTurnsOptions {
  readonly perSecond: number;
  /** Number of turns without waiting. */
  readonly burst: number;
  /** Maximum number of waiting turns. */
  readonly waitingMax: number;
  readonly timers: Timers;
}

type Answer = (granted: boolean) => void;

export class PacedTurns {
  readonly #options: PacedTurnsOptions;
  readonly #bucket: TokenBucket;
  /** By owner, in the order of their turns. */
  readonly #waiting = new Map<string, Answer[]>();
  #count = 0;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: PacedTurnsOptions) {
    this.#options = options;
    this.#bucket = new TokenBucket(options.burst, options.timers.monotonic());
  }

  /**
   * Resolves to true when it is the owner's turn; to false if too many wait, or after {@link stop}. When too many wait,
   * the owner with most of them loses its newest one, so that nobody can fill the places of others.
   */
  async take(owner: string): Promise<boolean> {
    if (this.#stopped || (this.#count >= this.#options.waitingMax && !this.#displaceFor(owner))) {
      return false;
    }
    return await new Promise<boolean>((resolve) => {
      const answers = this.#waiting.get(owner) ?? [];
      answers.push(resolve);
      this.#waiting.set(owner, answers);
      this.#count += 1;
      if (this.#timer === undefined) {
        this.#grant();
      }
    });
  }

  /** Gives no more turns. */
  stop(): void {
    this.#stopped = true;
    this.#options.timers.cancel(this.#timer);
    [...this.#waiting.values()].flat().forEach((answer) => answer(false));
    this.#waiting.clear();
  }

  /** Refuses the newest turn of the owner with most, unless this one would then have as many. */
  #displaceFor(owner: string): boolean {
    let most: Answer[] = [];
    for (const answers of this.#waiting.values()) {
      most = answers.length > most.length ? answers : most;
    }
    if (most.length <= (this.#waiting.get(owner)?.length ?? 0) + 1) {
      return false;
    }
    most.pop()?.(false);
    this.#count -= 1;
    return true;
  }

  #grant(): void {
    const { perSecond, burst, timers } = this.#options;
    this.#timer = undefined;
    for (const [owner, answers] of this.#waiting) {
      const waitMs = this.#bucket.take(perSecond, burst, timers.monotonic());
      if (waitMs > 0) {
        this.#timer = timers.after(waitMs, () => this.#grant());
        return;
      }
      const answer = answers.shift();
      this.#count -= 1;
      // The loop comes to it again, after the other owners.
      this.#waiting.delete(owner);
      if (answers.length > 0) {
        this.#waiting.set(owner, answers);
      }
      answer?.(true);
    }
  }
}
