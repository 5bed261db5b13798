import { Type } from "typebox";
import type { Endpoint as EndpointRow } from "../../database/repositories/endpoints.ts";
import { DISABLED_REASONS, ENDPOINT_STATES } from "../../domain/endpoint-state.ts";
import { verifyWorkflowId } from "../../../workflows/messages.ts";
import { withRawMember } from "../raw-json.ts";
import { Closed, Id, Nullable, OneOf, OpaqueObject, OpaqueObjectOrNull, Timestamp } from "./common.ts";

/** Event types (wire.md, Endpoints). */
export const EVENT_TYPE = "^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$";
export const EventType = Type.String({
  pattern: EVENT_TYPE,
  maxLength: 128,
  examples: ["inference.completed"],
});

/** Names of event types, or `*` alone for all of them. */
const EventFilter = Type.Union([
  Type.Array(EventType, { minItems: 1, maxItems: 64, uniqueItems: true }),
  Type.Array(Type.Literal("*"), { minItems: 1, maxItems: 1 }),
]);

/** Bytes of JSON. */
export const METADATA_MAX = 4_096;
/** Deepest nesting of metadata. */
export const METADATA_DEPTH = 5;

const TargetUrl = Type.String({ minLength: 1, maxLength: 2_048, examples: ["https://example.com/hooks"] });
export const Description = Nullable(Type.String({ maxLength: 1_024, pattern: "^[^\\u0000]*$" }));

/** Which events of those types; the operators are those of delivery/event-filter.ts. */
const PayloadFilter = Nullable(
  Type.Unsafe<Readonly<Record<string, unknown>>>({
    type: "object",
    additionalProperties: true,
    description: "A query document with MongoDB's operators over type and data; null for every event",
    examples: [{ "data.amount": { $gte: 100 } }],
  }),
);

export const NewEndpoint = Closed({
  url: TargetUrl,
  events: EventFilter,
  metadata: Type.Optional(OpaqueObject),
  description: Type.Optional(Description),
  filter: Type.Optional(PayloadFilter),
});

/** Changes of an endpoint: what is absent stays, `null` takes away what can be absent. */
export const EndpointPatch = Closed({
  url: Type.Optional(TargetUrl),
  events: Type.Optional(EventFilter),
  metadata: Type.Optional(OpaqueObjectOrNull),
  description: Type.Optional(Description),
  filter: Type.Optional(PayloadFilter),
});

/** A test event; `endpoint.test` with a greeting unless it says otherwise. */
export const TestEvent = Closed({ type: Type.Optional(EventType), data: Type.Optional(OpaqueObject) });

export const Endpoint = Type.Object({
  id: Id("endpoint"),
  url: Type.String(),
  events: Type.Array(Type.String()),
  metadata: Nullable(Type.Unsafe<unknown>({ type: "object", additionalProperties: true })),
  description: Nullable(Type.String()),
  filter: PayloadFilter,
  state: OneOf(ENDPOINT_STATES),
  disabled_reason: Nullable(OneOf(DISABLED_REASONS)),
  created_at: Timestamp,
  updated_at: Timestamp,
  verification: Type.Object({
    workflow_id: Type.String(),
    attempts: Type.Integer(),
    last_error: Nullable(Type.String()),
    next_attempt_at: Nullable(Timestamp),
    verified_at: Nullable(Timestamp),
    verified_by: Nullable(OneOf(["status", "echo"])),
  }),
});

/** An endpoint with its secret: the answer to its registration. */
export const RegisteredEndpoint = Type.Object({
  ...Endpoint.properties,
  secret: Type.String({ description: "Shown here only", examples: ["whsec_…"] }),
});

/** The wire form of an endpoint's row, with its metadata as the tenant spelled it; `secret` where it may be shown. */
export function wireEndpoint(row: EndpointRow, secret?: string): string {
  const wire = {
    id: row.id,
    url: row.url,
    events: row.eventTypes,
    description: row.description,
    filter: row.filter === null ? null : (JSON.parse(row.filter) as unknown),
    state: row.state,
    disabled_reason: row.disabledReason,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
    verification: {
      workflow_id: verifyWorkflowId(row.id, row.generation),
      attempts: row.verificationAttempts,
      last_error: row.verificationLastError,
      next_attempt_at: row.verificationNextAttemptAt?.toISOString() ?? null,
      verified_at: row.verifiedAt?.toISOString() ?? null,
      verified_by: row.verifiedBy,
    },
    ...(secret === undefined ? {} : { secret }),
  };
  return withRawMember(wire, "metadata", row.metadata ?? "null");
}
