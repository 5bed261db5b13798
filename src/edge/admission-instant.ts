/**
 * Reports when a request was admitted, for tests only. The response may be sent much later, so its time does not show
 * how long a revoked token was still admitted.
 */
import type { ScopeGuard } from "#tokens/guards/authentication.ts";

/**
 * Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. Upstreams cannot set this header
 * (headers.ts).
 */
const ADMISSION_HEADER = "x-signet-test-admitted-at";

/** Wraps the guard to report the time of admission in a response header. */
export function withAdmissionInstant(guard: ScopeGuard, monotonicNs: () => bigint): ScopeGuard {
  return (required) => {
    const admit = guard(required);
    return function admitAndTell(request, reply, done) {
      admit.call(this, request, reply, (error) => {
        if (error === undefined) {
          void reply.header(ADMISSION_HEADER, String(monotonicNs()));
        }
        done(error);
      });
    };
  };
}
