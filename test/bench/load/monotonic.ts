/**
 * Returns the time in milliseconds, comparable between the processes of the machine: CLOCK_MONOTONIC. `performance.now()`
 * with an offset is not: a pause between the two readings that make the offset shifts every later time.
 */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}
