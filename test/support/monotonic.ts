/** CLOCK_MONOTONIC, one clock for all processes of a machine, so that their times can be compared. */

/** Returns the current time in milliseconds. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Converts a wall-clock time of this machine to the earliest monotonic time that it can mean. */
export function monotonicOf(instant: string | Date): number {
  // Both are truncated to whole milliseconds.
  return monotonicMs() - (Date.now() + 1 - new Date(instant).getTime());
}
