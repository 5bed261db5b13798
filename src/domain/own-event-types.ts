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

/** Challenges and grades: sent without a row in `events`, and nobody subscribes to them. */
const UNLISTED_TYPES = ["ping", "signet.grade"];

const namespaceOf = (type: string): string => type.slice(0, type.indexOf(".") + 1);

const RESERVED_NAMESPACES: ReadonlySet<string> = new Set(
  [...OWN_EVENT_TYPES, ...UNLISTED_TYPES].map(namespaceOf).filter((namespace) => namespace !== ""),
);

/**
 * Whether tenants may not publish or catalogue a type: a receiver takes such an event for the service's word. Every type
 * under a namespace of the service is reserved, so that the service can add one without taking it from a tenant.
 */
export function isReservedType(type: string): boolean {
  return UNLISTED_TYPES.includes(type) || RESERVED_NAMESPACES.has(namespaceOf(type));
}

/** What a tenant reads that uses a reserved type; after the name of the member. */
export const RESERVED_TYPE_PROBLEM = {
  code: "reserved",
  detail: `is reserved: only the service sends ping and types that begin with ${[...RESERVED_NAMESPACES].sort().join(", ")}`,
} as const;

export type OwnEventType = (typeof OWN_EVENT_TYPES)[number];
