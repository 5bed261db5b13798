/** The client's time and chance in the hand of a test; the network stays the real one. */
import type { Runtime, Warning } from "../../src/lib/client/runtime.ts";

export interface TestRuntime extends Omit<Runtime, "fetch"> {
  /** Moves the time. */
  advance(ms: number): void;
  /** What was waited for; waiting moves the time and takes none. */
  readonly sleeps: readonly number[];
  readonly warnings: readonly Warning[];
}

/** @param random what chance always says */
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
