/** Limits of the form "at most n in m milliseconds" per key, in bounded memory. */
import { putBounded } from "./bounded-map.ts";

export interface WindowLimit {
  readonly count: number;
  readonly perMs: number;
}

export class SlidingWindow {
  readonly #limits: readonly WindowLimit[];
  readonly #keysMax: number;
  readonly #taken = new Map<string, number[]>();

  /**
   * @param keysMax most keys remembered; beyond it, the least recently used key is forgotten, which can only admit more
   */
  constructor(limits: readonly WindowLimit[], keysMax: number) {
    this.#limits = limits;
    this.#keysMax = keysMax;
  }

  /**
   * Takes a slot for the key.
   *
   * @returns 0 if there was a free one, else the milliseconds until there is
   */
  take(key: string, nowMs: number): number {
    const longestMs = Math.max(...this.#limits.map((limit) => limit.perMs));
    const times = (this.#taken.get(key) ?? []).filter((time) => time > nowMs - longestMs);
    putBounded(this.#taken, key, times, this.#keysMax);
    const waitMs = Math.max(
      0,
      ...this.#limits.map(({ count, perMs }) => {
        const within = times.filter((time) => time > nowMs - perMs);
        const blocking = within[within.length - count];
        return blocking === undefined ? 0 : blocking + perMs - nowMs;
      }),
    );
    if (waitMs === 0) {
      times.push(nowMs);
    }
    return waitMs;
  }
}
