/**
 * For tests, never in production: when a request was let in. Its answer can leave much later, so that the time of the
 * answer says little about how long a revoked token was still admitted.
 */
import type { ScopeGuard } from "../tokens/guards/authentication.ts";

/** Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. Upstreams cannot set it: see headers.ts. */
const ADMISSION_HEADER = "x-signet-test-admitted-at";

/** The guard, with the instant at which it let a request in as a header of the answer. */
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
