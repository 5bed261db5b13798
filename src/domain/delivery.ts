/** The states of a delivery. The database, JSON and the search attribute use the same spelling (contract 3.4). */

export const DELIVERY_STATES = [
  "QUEUED",
  "RETRYING",
  "DELIVERED",
  "DEAD_LETTERED",
  "EXPIRED",
  "CANCELLED",
] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** Days of usage that are shown unless a caller names the first one. */
export const USAGE_DAYS = 30;

/** Why a delivery is a dead letter. */
export const DEAD_LETTER_REASONS = ["attempts_exhausted", "endpoint_disabled"] as const;
export type DeadLetterReason = (typeof DEAD_LETTER_REASONS)[number];

/** Why a delivery left the schedule. A delivery whose content was erased is cancelled. */
export type DeliveryReason = DeadLetterReason | "content_erased";

/**
 * Coarse classes of failure, shown to tenants. They reveal nothing about the internal network. `refused` means our
 * address policy; a refused TCP connection is `connect`. `authentication` means that no access token could be
 * obtained.
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

/** Returns how an attempt was answered, in a word: its status, or what kept it away. */
export function answerOf({
  status,
  error,
}: {
  readonly status: number | null;
  readonly error: string | null;
}): string {
  return error === null || error === "status" ? String(status) : error;
}
