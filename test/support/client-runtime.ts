/** A client runtime with test-controlled time and randomness; the network is real. */
import type { Runtime, Warning } from "#lib/client/runtime.ts";

export interface TestRuntime extends Omit<Runtime, "fetch"> {
  /** Advances the time. */
  advance(ms: number): void;
  /** Durations of all sleeps. A sleep advances the clock and returns immediately. */
  readonly sleeps: readonly number[];
  readonly warnings: readonly Warning[];
}

/** @param random value that the random source always returns */
export function testRuntime(random = 0.5): TestRuntime {
  const sleeps: number[] = [];
  const warnings: Warning[] = [];
  let now = Date.parse("2026-11-20T12:00:00.000Z");
  return {
    clock: { now: () => now },
    random: () => random,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      sleeps.push(ms);
      now += ms;
      await Promise.resolve();
    },
    warn: (warning) => void warnings.push(warning),
    advance: (ms) => {
      now += ms;
    },
    sleeps,
    warnings,
  };
}
