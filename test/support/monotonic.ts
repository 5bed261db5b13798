/** CLOCK_MONOTONIC: one clock for all processes of a machine, so that instants of several can be compared. */

/** Now, in milliseconds. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** An instant that a process of this machine gave by the wall clock, at the earliest that it can mean. */
export function monotonicOf(instant: string | Date): number {
  // Both are cut to whole milliseconds.
  return monotonicMs() - (Date.now() + 1 - new Date(instant).getTime());
}
