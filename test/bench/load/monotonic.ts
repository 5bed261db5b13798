/** One clock for all processes of the machine: CLOCK_MONOTONIC, which `process.hrtime` reads. */
const offsetMs = Number(process.hrtime.bigint() / 1_000n) / 1_000 - performance.now();

/** Returns the time in milliseconds, comparable between processes. */
export function monotonicMs(): number {
  return performance.now() + offsetMs;
}
