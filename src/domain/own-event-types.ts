/**
 * Types of the events that the service itself publishes to its tenants. A dead letter of one of them is not told of again:
 * telling could fail just as well.
 */
export const OWN_EVENT_TYPES = [
  "credential.revoked",
  "dead_letter.expiring",
  "delivery.dead_lettered",
  "endpoint.disabled",
  "endpoint.secret_rotated",
  "endpoint.test",
  "verification.exhausted",
] as const;

export type OwnEventType = (typeof OWN_EVENT_TYPES)[number];
