/** How long an Idempotency-Key is remembered (contract 6.2), in milliseconds. */
export const IDEMPOTENCY_MS = 86_400_000;
