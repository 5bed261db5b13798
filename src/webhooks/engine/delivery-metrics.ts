/** Counts attempts in memory. Labels are resolved once per outcome. */
import { ATTEMPT_ERRORS, type AttemptError } from "#domain/delivery.ts";
import { idTimeMs } from "#domain/ids.ts";
import { metrics } from "#observability/metrics.ts";

type Outcome = AttemptError | "delivered" | "internal";

const ATTEMPTS = Object.fromEntries(
  [...ATTEMPT_ERRORS, "delivered" as const, "internal" as const].map((outcome) => [
    outcome,
    metrics.attempts.labels(outcome),
  ]),
) as Readonly<Record<Outcome, { inc(by?: number): void }>>;

const ENDED = {
  DELIVERED: metrics.deliveriesEnded.labels("delivered"),
  DEAD_LETTERED: metrics.deliveriesEnded.labels("dead_lettered"),
  CANCELLED: metrics.deliveriesEnded.labels("cancelled"),
} as const;

// A rate needs an initial zero.
for (const series of [...Object.values(ENDED), ...Object.values(ATTEMPTS)]) {
  series.inc(0);
}

/** Counts an attempt that was sent, with or without a response. */
export function countAttempt({
  deliveryId,
  first,
  startedAtMs,
  durationMs,
  error,
}: {
  readonly deliveryId: string;
  /** Whether this is the first attempt of the first cycle. */
  readonly first: boolean;
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly error: AttemptError | null;
}): void {
  ATTEMPTS[error ?? "delivered"].inc();
  metrics.attemptSeconds.observe(durationMs / 1_000);
  if (first) {
    // The id contains the time of acceptance.
    metrics.firstAttemptLag.observe(Math.max(0, startedAtMs - idTimeMs(deliveryId)) / 1_000);
  }
}

/** Counts an attempt that could not be made or recorded because of an internal failure. */
export function countInternalFailure(): void {
  ATTEMPTS.internal.inc();
}

/** Counts a finished delivery. */
export function countEnded(state: keyof typeof ENDED): void {
  ENDED[state].inc();
}
