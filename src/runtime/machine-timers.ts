/**
 * The machine's own time. Composition roots, programs of users and published libraries use it. All other code gets its
 * time as an argument (test/unit/repository/time-is-an-argument.test.ts).
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Clock, Timers } from "#domain/clock.ts";

export const machineTimers: Timers = {
  wall: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, run, argument) => setTimeout(run as (argument: unknown) => void, ms, argument),
  every: (ms, run) => setInterval(run, ms),
  soon: (run, argument) => void setImmediate(run as (argument: unknown) => void, argument),
  cancel: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  sleep: async (ms, signal) => await delay(ms, undefined, signal === undefined ? {} : { signal }),
};

/** The machine's wall clock, for programs that share no instants with others. */
export const systemClock: Clock = { now: machineTimers.wall };
