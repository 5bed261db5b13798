/** The states of a delivery and what they mean; one spelling for database, JSON and search attribute (wire.md). */

export const DELIVERY_STATES = [
  "QUEUED",
  "RETRYING",
  "DELIVERED",
  "DEAD_LETTERED",
  "EXPIRED",
  "CANCELLED",
] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** Why a delivery is a dead letter. */
export const DEAD_LETTER_REASONS = ["attempts_exhausted", "endpoint_disabled"] as const;
export type DeadLetterReason = (typeof DEAD_LETTER_REASONS)[number];

/** Why a delivery was taken out of the schedule: what can be sent no more is cancelled. */
export type DeliveryReason = DeadLetterReason | "content_erased";

/**
 * Coarse classes of failure, shown to tenants; they reveal nothing about the inside of the network. `refused` is our
 * own address policy, a refused TCP connection is `connect`; `authentication`: there was no access token to
 * send with.
 */
export const ATTEMPT_ERRORS = [
  "status",
  "timeout",
  "connect",
  "tls",
  "dns",
  "refused",
  "aborted",
  "authentication",
] as const;
export type AttemptError = (typeof ATTEMPT_ERRORS)[number];
