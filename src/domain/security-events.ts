/** Security events (RFC 8417) that the service transmits: of CAEP 1.0 and of the Shared Signals Framework 1.0. */

const CAEP = "https://schemas.openid.net/secevent/caep/event-type";
const SSF = "https://schemas.openid.net/secevent/ssf/event-type";

/** URIs of the events that a stream can deliver, by name. */
export const CAEP_EVENTS = {
  "session-revoked": `${CAEP}/session-revoked`,
  "credential-change": `${CAEP}/credential-change`,
  "token-claims-change": `${CAEP}/token-claims-change`,
} as const;

/** URIs of the events about a stream itself. Every stream gets its own. */
export const STREAM_EVENTS = {
  verification: `${SSF}/verification`,
  "stream-updated": `${SSF}/stream-updated`,
} as const;

/** The events that a stream can deliver (`events_supported`). */
export const EVENTS_SUPPORTED: readonly string[] = Object.values(CAEP_EVENTS);

/** Type of an event in the service's own events and deliveries, by its name. */
export const INTERNAL_TYPES = {
  "session-revoked": "signet.session_revoked",
  "credential-change": "signet.credential_change",
  "token-claims-change": "signet.token_claims_change",
  verification: "signet.verification",
  "stream-updated": "signet.stream_updated",
} as const;

/** States of a stream (Shared Signals Framework 1.0 section 8.1.2). */
export const STREAM_STATUSES = ["enabled", "paused", "disabled"] as const;
export type StreamStatus = (typeof STREAM_STATUSES)[number];

/** A subject identifier (RFC 9493). */
export type SubjectId = Readonly<Record<string, unknown>> & { readonly format: string };

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return value;
  }
  const members = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, sorted(member)]));
}

/** Returns the text by which two identical subjects are recognized: JSON with its members in order. */
export function subjectText(subject: SubjectId): string {
  return JSON.stringify(sorted(subject));
}

/** Returns the types that a stream delivers (`events_delivered`). @param requested null for every supported type */
export function eventsDelivered(requested: readonly string[] | null): readonly string[] {
  return requested === null
    ? EVENTS_SUPPORTED
    : EVENTS_SUPPORTED.filter((event) => requested.includes(event));
}
