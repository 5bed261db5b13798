import { Type } from "typebox";
import type { Endpoint as EndpointRow } from "../../database/repositories/endpoints/endpoints.ts";
import { DISABLED_REASONS, ENDPOINT_STATES } from "../../domain/endpoint-state.ts";
import { verifyWorkflowId } from "../../../workflows/messages.ts";
import { withRawMember } from "../../http/raw-json.ts";
import {
  Closed,
  Formed,
  Id,
  Nullable,
  OneOf,
  OpaqueObject,
  OpaqueObjectOrNull,
  Timestamp,
} from "../../http/common.ts";

/** Event types (wire.md, Endpoints). */
export const EVENT_TYPE = "^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$";
const EVENT_TYPE_FORM = {
  pattern: EVENT_TYPE,
  wanted:
    "an event type such as inference.completed: words of a-z, 0-9 and _ that begin with a letter, joined by dots, two or more",
  shown: true,
} as const;
const EVENT_TYPE_SIZE = { maxLength: 128, examples: ["inference.completed"] };
export const EventType = Formed(EVENT_TYPE_FORM, EVENT_TYPE_SIZE);

/** The same in a list that may be `*` instead. */
const SubscribedType = Formed(
  { ...EVENT_TYPE_FORM, wanted: `${EVENT_TYPE_FORM.wanted}; or the list is * alone, for all events` },
  EVENT_TYPE_SIZE,
);

/** Names of event types, or `*` alone for all of them. */
const EventFilter = Type.Union([
  Type.Array(SubscribedType, { minItems: 1, maxItems: 64, uniqueItems: true }),
  Type.Array(Type.Literal("*"), { minItems: 1, maxItems: 1 }),
]);

/** Bytes of JSON. */
export const METADATA_MAX = 4_096;
/** Deepest nesting of metadata. */
export const METADATA_DEPTH = 5;

const TargetUrl = Type.String({
  minLength: 1,
  maxLength: 2_048,
  "x-wanted": "an https URL such as https://example.com/hooks",
  examples: ["https://example.com/hooks"],
});
export const Description = Nullable(
  Formed({ pattern: "^[^\\u0000]*$", wanted: "a text without U+0000" }, { maxLength: 1_024 }),
);

/** Which events of those types; the operators are those of delivery/event-filter.ts. */
const PayloadFilter = Nullable(
  Type.Unsafe<Readonly<Record<string, unknown>>>({
    type: "object",
    additionalProperties: true,
    description: "A query document with MongoDB's operators over type and data; null for every event",
    examples: [{ "data.amount": { $gte: 100 } }],
  }),
);

/** A header's name and value as they may be sent; which names, the service knows. */
const HeaderName = (options: Type.TStringOptions = {}) =>
  Formed(
    {
      pattern: "^[A-Za-z][A-Za-z0-9_-]{0,63}$",
      wanted: "a header's name: a letter, then letters, digits, - and _, 64 characters at most",
    },
    options,
  );
const HeaderValue = (maxLength: number) =>
  Formed(
    {
      pattern: "^[\\x21-\\x7e]([\\x20-\\x7e\\t]*[\\x21-\\x7e])?$",
      wanted: "a header's value: printable ASCII characters, without spaces at its ends",
    },
    { maxLength },
  );
const PEM_MAX = 32_768;

const Headers = Type.Unsafe<Record<string, string>>({
  type: "object",
  propertyNames: HeaderName(),
  additionalProperties: HeaderValue(1_024),
  description:
    "Sent with every request besides ours; 16 at most. They are shown: secrets belong under authentication",
  examples: [{ "X-Environment": "staging" }],
});

const Printable = (maxLength: number) =>
  Formed(
    { pattern: "^[\\x20-\\x7e]+$", wanted: "a text of printable ASCII characters" },
    { minLength: 1, maxLength },
  );

/** How requests authenticate to the receiver. Secrets go in and never come out. */
const NewAuthentication = Type.Union([
  Closed({
    type: Type.Literal("header"),
    name: HeaderName({ examples: ["Authorization"] }),
    value: HeaderValue(4_096),
  }),
  Closed({
    type: Type.Literal("oauth2_client_credentials"),
    token_url: TargetUrl,
    client_id: Printable(512),
    client_secret: Printable(1_024),
    scope: Type.Optional(
      Formed(
        {
          pattern: "^[\\x21\\x23-\\x5b\\x5d-\\x7e ]+$",
          wanted: 'scopes, separated by spaces: printable ASCII characters without " and \\',
        },
        { maxLength: 1_024 },
      ),
    ),
  }),
  Closed({
    type: Type.Literal("client_certificate"),
    certificate: Type.String({
      maxLength: PEM_MAX,
      description: "PEM, followed by those between it and the root",
    }),
    private_key: Type.String({ maxLength: PEM_MAX, description: "PEM, not encrypted" }),
  }),
]);

const ShownAuthentication = Type.Union([
  Type.Object({ type: Type.Literal("header"), name: Type.String(), updated_at: Timestamp }),
  Type.Object({
    type: Type.Literal("oauth2_client_credentials"),
    token_url: Type.String(),
    client_id: Type.String(),
    scope: Type.Optional(Type.String()),
    updated_at: Timestamp,
  }),
  Type.Object({
    type: Type.Literal("client_certificate"),
    fingerprint: Type.String({ description: "SHA-256 of the certificate" }),
    subject: Type.String(),
    not_after: Timestamp,
    updated_at: Timestamp,
  }),
]);

const RequireEcho = Type.Boolean({
  description: "Only an answer that holds the ping's challenge verifies the endpoint",
});

/** Deliveries per second. */
const RATE_LIMIT_MAX = 1_000;

const RateLimit = Nullable(
  Type.Integer({
    minimum: 1,
    maximum: RATE_LIMIT_MAX,
    description: "Deliveries per second at most; what is beyond waits for its turn. Null for no limit",
    examples: [20],
  }),
);

export const NewEndpoint = Closed({
  url: TargetUrl,
  events: EventFilter,
  metadata: Type.Optional(OpaqueObjectOrNull),
  description: Type.Optional(Description),
  filter: Type.Optional(PayloadFilter),
  headers: Type.Optional(Nullable(Headers)),
  authentication: Type.Optional(Nullable(NewAuthentication)),
  require_echo: Type.Optional(RequireEcho),
  rate_limit: Type.Optional(RateLimit),
});

/** Changes of an endpoint: what is absent stays, `null` takes away what can be absent. */
export const EndpointPatch = Closed({
  url: Type.Optional(TargetUrl),
  events: Type.Optional(EventFilter),
  metadata: Type.Optional(OpaqueObjectOrNull),
  description: Type.Optional(Description),
  filter: Type.Optional(PayloadFilter),
  headers: Type.Optional(Nullable(Headers)),
  authentication: Type.Optional(Nullable(NewAuthentication)),
  require_echo: Type.Optional(RequireEcho),
  rate_limit: Type.Optional(RateLimit),
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
  headers: Type.Unsafe<Record<string, string>>({ type: "object", additionalProperties: { type: "string" } }),
  authentication: Nullable(ShownAuthentication),
  require_echo: Type.Boolean(),
  rate_limit: RateLimit,
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
    headers: JSON.parse(row.headers ?? "{}") as unknown,
    authentication: JSON.parse(row.authentication ?? "null") as unknown,
    require_echo: row.requireEcho,
    rate_limit: row.rateLimit,
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
