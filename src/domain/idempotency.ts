/** How long an Idempotency-Key is remembered (wire.md, Events), in milliseconds. */
export const IDEMPOTENCY_MS = 86_400_000;
