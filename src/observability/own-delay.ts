/** Measures the delay of this process's own timers, which distorts what it measures of others. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Timer, Timers } from "#domain/clock.ts";

/** A finer resolution wakes an idle process more often. Delays are underestimated by up to this. */
const RESOLUTION_MS = 100;
const WINDOW_MS = 1_000;

export class OwnDelay {
  readonly #histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  readonly #timers: Timers;
  readonly #timer: Timer;
  #lastWindowMs = 0;

  constructor(timers: Timers) {
    this.#histogram.enable();
    this.#timers = timers;
    this.#timer = timers.every(WINDOW_MS, () => {
      this.#lastWindowMs = this.#currentMs;
      this.#histogram.reset();
    });
    this.#timer.unref();
  }

  /** The longest delay of the last one to two seconds, in milliseconds. */
  get ms(): number {
    return Math.max(this.#lastWindowMs, this.#currentMs);
  }

  stop(): void {
    this.#timers.cancel(this.#timer);
    this.#histogram.disable();
  }

  get #currentMs(): number {
    return this.#histogram.count === 0 ? 0 : this.#histogram.max / 1e6 - RESOLUTION_MS;
  }
}
