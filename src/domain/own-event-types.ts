/**
 * Types of the events that the service itself publishes to its tenants. A dead letter of one of them causes no further
 * event, which could fail just as well.
 */
export const OWN_EVENT_TYPES = [
  "credential.ended",
  "credential.revoked",
  "dead_letter.expiring",
  "delivery.dead_lettered",
  "endpoint.disabled",
  "endpoint.failing",
  "endpoint.recovered",
  "endpoint.secret_rotated",
  "endpoint.test",
  "verification.exhausted",
] as const;

/** Pings and grades. They have no row in `events`, and cannot be subscribed to. */
const UNLISTED_TYPES = ["ping", "signet.grade"];

const namespaceOf = (type: string): string => type.slice(0, type.indexOf(".") + 1);

const RESERVED_NAMESPACES: ReadonlySet<string> = new Set(
  [...OWN_EVENT_TYPES, ...UNLISTED_TYPES].map(namespaceOf).filter((namespace) => namespace !== ""),
);

/**
 * Whether tenants may not publish or catalogue a type. Receivers trust such events to come from the service. Every
 * type under one of the service's namespaces is reserved, so that new types never collide with a tenant's.
 */
export function isReservedType(type: string): boolean {
  return UNLISTED_TYPES.includes(type) || RESERVED_NAMESPACES.has(namespaceOf(type));
}

/** The problem reported for a reserved type; the member's name precedes it. */
export const RESERVED_TYPE_PROBLEM = {
  code: "reserved",
  detail: `is reserved: only the service sends ping and types that begin with ${[...RESERVED_NAMESPACES].sort().join(", ")}`,
} as const;

export type OwnEventType = (typeof OWN_EVENT_TYPES)[number];
