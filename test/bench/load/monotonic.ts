/** One clock for all processes of the machine: CLOCK_MONOTONIC, which is what `process.hrtime` reads. */
const offsetMs = Number(process.hrtime.bigint() / 1_000n) / 1_000 - performance.now();

/** Milliseconds, comparable between processes. */
export function monotonicMs(): number {
  return performance.now() + offsetMs;
}
