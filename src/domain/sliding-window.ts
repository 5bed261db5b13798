/** Limits of the kind "at most n in so many milliseconds", per key, in memory and bounded. */
import { putBounded } from "./bounded-map.ts";

export interface WindowLimit {
  readonly count: number;
  readonly perMs: number;
}

export interface SlidingWindow {
  /**
   * Takes a place for the key.
   *
   * @returns 0 when there was one, else how many milliseconds until there is
   */
  take(key: string, nowMs: number): number;
}

/**
 * @param keysMax most keys remembered; beyond it the one used longest ago is forgotten, which only ever lets one pass
 */
export function createSlidingWindow(limits: readonly WindowLimit[], keysMax: number): SlidingWindow {
  const longestMs = Math.max(...limits.map((limit) => limit.perMs));
  const taken = new Map<string, number[]>();
  return {
    take: (key, nowMs) => {
      const times = (taken.get(key) ?? []).filter((time) => time > nowMs - longestMs);
      putBounded(taken, key, times, keysMax);
      const waitMs = Math.max(
        0,
        ...limits.map(({ count, perMs }) => {
          const within = times.filter((time) => time > nowMs - perMs);
          const blocking = within[within.length - count];
          return blocking === undefined ? 0 : blocking + perMs - nowMs;
        }),
      );
      if (waitMs === 0) {
        times.push(nowMs);
      }
      return waitMs;
    },
  };
}
