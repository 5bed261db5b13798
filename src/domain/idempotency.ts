/** How long an Idempotency-Key is remembered (contract 6.2), in milliseconds. */
export const IDEMPOTENCY_MS = 86_400_000;
/** The same in hours, for texts. */
export const IDEMPOTENCY_HOURS = IDEMPOTENCY_MS / 3_600_000;
