/** How long an Idempotency-Key stands for its first request (wire.md, Events). */
export const IDEMPOTENCY_MS = 86_400_000;
