/** What is counted of each attempt: additions in memory, looked up once for each kind of outcome. */
import { ATTEMPT_ERRORS, type AttemptError } from "../../domain/delivery.ts";
import { idTimeMs } from "../../domain/ids.ts";
import { metrics } from "../../observability/metrics.ts";

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

// A rate needs a zero to start from.
for (const series of [...Object.values(ENDED), ...Object.values(ATTEMPTS)]) {
  series.inc(0);
}

/** An attempt has been sent, and answered or not. */
export function countAttempt({
  deliveryId,
  first,
  startedAtMs,
  durationMs,
  error,
}: {
  readonly deliveryId: string;
  /** The first attempt of the delivery's first cycle. */
  readonly first: boolean;
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly error: AttemptError | null;
}): void {
  ATTEMPTS[error ?? "delivered"].inc();
  metrics.attemptSeconds.observe(durationMs / 1_000);
  if (first) {
    // The id holds the moment of the acceptance.
    metrics.firstAttemptLag.observe(Math.max(0, startedAtMs - idTimeMs(deliveryId)) / 1_000);
  }
}

/** An attempt could not be made, or its outcome not be kept, for reasons of our own. */
export function countInternalFailure(): void {
  ATTEMPTS.internal.inc();
}

/** A delivery is over. */
export function countEnded(state: keyof typeof ENDED): void {
  ENDED[state].inc();
}
