/** Measures the delay of this process's own timers, which distorts what it measures of others. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Timers } from "#domain/clock.ts";

/** A finer resolution wakes an idle process more often. Delays are underestimated by up to this. */
const RESOLUTION_MS = 100;
const WINDOW_MS = 1_000;

export interface OwnDelay {
  /** Returns the longest delay of the last one to two seconds, in milliseconds. */
  readonly ms: () => number;
  stop(): void;
}

export function measureOwnDelay(timers: Timers): OwnDelay {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  let lastWindowMs = 0;
  const currentMs = (): number => (histogram.count === 0 ? 0 : histogram.max / 1e6 - RESOLUTION_MS);
  const timer = timers.every(WINDOW_MS, () => {
    lastWindowMs = currentMs();
    histogram.reset();
  });
  timer.unref();
  return {
    ms: () => Math.max(lastWindowMs, currentMs()),
    stop: () => {
      timers.cancel(timer);
      histogram.disable();
    },
  };
}
