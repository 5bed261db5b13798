import { type Static, type TSchema, Type } from "typebox";
import type { Endpoint as EndpointRow } from "#database/repositories/endpoints/endpoints.ts";
import type { ReportedActivity } from "#database/repositories/webhooks/delivery-counts.ts";
import { ATTEMPT_ERRORS } from "#domain/delivery.ts";
import { SHOWN_HEALTHS, shownHealth } from "#domain/endpoint-health.ts";
import { ENDPOINT_SETTINGS, type EndpointSetting, type EndpointSettings } from "#domain/endpoint-settings.ts";
import { DISABLED_REASONS, ENDPOINT_STATES, type EndpointState } from "#domain/endpoint-state.ts";
import { verifyWorkflowId } from "#workflows/messages.ts";
import { spliceMember } from "#http/raw-json.ts";
import {
  Body,
  Documented,
  Formed,
  Id,
  Named,
  Nullable,
  OneOf,
  OpaqueObject,
  OpaqueObjectOrNull,
  Resource,
  Timestamp,
} from "#http/common.ts";

/** The pattern of event types (contract 4.5). */
export const EVENT_TYPE = "^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$";
const EVENT_TYPE_FORM = {
  pattern: EVENT_TYPE,
  wanted:
    "an event type such as inference.completed: two or more words of a-z, 0-9 and _ that begin with a letter, joined by dots",
  shown: true,
} as const;
const EVENT_TYPE_SIZE = { maxLength: 128, examples: ["inference.completed"] };
export const EventType = Formed(EVENT_TYPE_FORM, EVENT_TYPE_SIZE);

/** An event type in a list that may be `*` instead. */
const SubscribedType = Formed(
  { ...EVENT_TYPE_FORM, wanted: `${EVENT_TYPE_FORM.wanted}; or * as the only item, for all events` },
  EVENT_TYPE_SIZE,
);

const EVENTS_MAX = 64;

/** Event types, or `*` alone for all of them. */
const EventFilter = Type.Union(
  [
    Type.Array(SubscribedType, { minItems: 1, maxItems: EVENTS_MAX, uniqueItems: true }),
    Type.Array(Type.Literal("*"), { minItems: 1, maxItems: 1 }),
  ],
  // Generators of clients do not understand a union of lists.
  Documented({
    anyOf: undefined,
    type: "array",
    items: {
      type: "string",
      pattern: EVENT_TYPE.replace(/^\^(.*)\$$/, String.raw`^(\*|$1)$$`),
      ...EVENT_TYPE_SIZE,
    },
    minItems: 1,
    maxItems: EVENTS_MAX,
    uniqueItems: true,
    description: "Event types, or `*` as the only item for all of them",
  }),
);

/** Maximum nesting depth of metadata. */
export const METADATA_DEPTH = 5;

const TargetUrl = Type.String({
  minLength: 1,
  maxLength: 2_048,
  "x-wanted": "an https URL such as https://example.com/hooks",
  examples: ["https://example.com/hooks"],
});
const Text = (maxLength: number) =>
  Nullable(Formed({ pattern: "^[^\\u0000]*$", wanted: "a text without U+0000" }, { maxLength }));
export const Description = Text(1_024);

/** Selects events of those types; webhooks/ingest/event-filter.ts defines the operators. */
const PayloadFilter = Nullable(
  Type.Unsafe<Readonly<Record<string, unknown>>>({
    type: "object",
    additionalProperties: true,
    description: "A query document with MongoDB operators on type and data; null matches every event",
    examples: [{ "data.amount": { $gte: 100 } }],
  }),
);

/** The syntax of a header's name and value; the service decides which names are allowed. */
const HeaderName = (options: Type.TStringOptions = {}) =>
  Formed(
    {
      pattern: "^[A-Za-z][A-Za-z0-9_-]{0,63}$",
      wanted: "a header name: a letter, then letters, digits, - and _, 64 characters at most",
    },
    options,
  );
const HeaderValue = (maxLength: number) =>
  Formed(
    {
      pattern: "^[\\x21-\\x7e]([\\x20-\\x7e\\t]*[\\x21-\\x7e])?$",
      wanted: "a header value: printable ASCII characters, without spaces at its ends",
    },
    { maxLength },
  );
const PEM_MAX = 32_768;

const Headers = Type.Unsafe<Record<string, string>>({
  type: "object",
  propertyNames: HeaderName(),
  additionalProperties: HeaderValue(1_024),
  description:
    "Additional headers of every request, 16 at most. Responses show them: put secrets into authentication",
  examples: [{ "X-Environment": "staging" }],
});

const Printable = (maxLength: number) =>
  Formed(
    { pattern: "^[\\x20-\\x7e]+$", wanted: "a text of printable ASCII characters" },
    { minLength: 1, maxLength },
  );

/** How requests authenticate to the receiver. Responses never contain the secrets. */
const NewAuthentication = Named(
  "AuthenticationInput",
  Type.Union([
    Body("HeaderAuthenticationInput", {
      type: Type.Literal("header"),
      name: HeaderName({ examples: ["Authorization"] }),
      value: HeaderValue(4_096),
    }),
    Body("OAuth2AuthenticationInput", {
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
    Body("CertificateAuthenticationInput", {
      type: Type.Literal("client_certificate"),
      certificate: Type.String({
        maxLength: PEM_MAX,
        description: "PEM, followed by the intermediate certificates",
      }),
      private_key: Type.String({ maxLength: PEM_MAX, description: "PEM, unencrypted" }),
    }),
  ]),
);

const ShownAuthentication = Named(
  "Authentication",
  Type.Union([
    Resource("HeaderAuthentication", {
      type: Type.Literal("header"),
      name: Type.String(),
      updated_at: Timestamp,
    }),
    Resource("OAuth2Authentication", {
      type: Type.Literal("oauth2_client_credentials"),
      token_url: Type.String(),
      client_id: Type.String(),
      scope: Type.Optional(Type.String()),
      updated_at: Timestamp,
    }),
    Resource("CertificateAuthentication", {
      type: Type.Literal("client_certificate"),
      fingerprint: Type.String({ description: "SHA-256 of the certificate" }),
      subject: Type.String(),
      not_after: Timestamp,
      updated_at: Timestamp,
    }),
  ]),
);

/** Schemas of the settings with code of their own, in requests and responses. */
const OWN_SCHEMAS = {
  url: { request: TargetUrl, response: Type.String() },
  events: { request: EventFilter, response: Type.Array(Type.String()) },
  metadata: {
    request: OpaqueObjectOrNull,
    response: Nullable(Type.Unsafe<unknown>({ type: "object", additionalProperties: true })),
  },
  filter: { request: PayloadFilter, response: PayloadFilter },
  headers: {
    request: Nullable(Headers),
    response: Type.Unsafe<Record<string, string>>({
      type: "object",
      additionalProperties: { type: "string" },
    }),
  },
  authentication: { request: Nullable(NewAuthentication), response: Nullable(ShownAuthentication) },
};

/** Schemas of the other settings, by kind. */
interface KindSchemas {
  text: Type.TUnion<[Type.TString, Type.TNull]>;
  number: Type.TUnion<[Type.TInteger, Type.TNull]>;
  flag: Type.TBoolean;
}

type SchemaOf<Setting extends EndpointSetting, Part extends "request" | "response"> = Setting extends {
  readonly kind: keyof KindSchemas;
}
  ? KindSchemas[Setting["kind"]]
  : Setting["wire"] extends keyof typeof OWN_SCHEMAS
    ? (typeof OWN_SCHEMAS)[Setting["wire"]][Part]
    : never;

function schemaOf(setting: EndpointSetting, part: "request" | "response"): TSchema {
  switch (setting.kind) {
    case "text":
      return part === "request" ? Text(setting.maxLength) : Nullable(Type.String());
    case "number": {
      const { minimum, maximum, description, examples } = setting;
      return Nullable(Type.Integer({ minimum, maximum, description, examples: [...examples] }));
    }
    case "flag":
      return Type.Boolean(part === "request" ? { description: setting.description } : {});
    case "url":
    case "events":
    case "object":
    case "headers":
    case "authentication":
    default:
      return OWN_SCHEMAS[setting.wire][part];
  }
}

/** Returns the schemas of all settings by their wire names. */
function properties(schema: (setting: EndpointSetting) => TSchema): Record<string, TSchema> {
  return Object.fromEntries(ENDPOINT_SETTINGS.map((setting) => [setting.wire, schema(setting)]));
}

type Responses = { [Setting in EndpointSetting as Setting["wire"]]: SchemaOf<Setting, "response"> };
type Changes = {
  [Setting in EndpointSetting as Setting["wire"]]: Type.TOptional<SchemaOf<Setting, "request">>;
};
type Required = Extract<EndpointSetting, { readonly required: true }>;
type Registration = Omit<Changes, Required["wire"]> & {
  [Setting in Required as Setting["wire"]]: SchemaOf<Setting, "request">;
};

export const NewEndpoint = Body(
  "EndpointInput",
  properties((setting) => {
    const schema = schemaOf(setting, "request");
    return "required" in setting ? schema : Type.Optional(schema);
  }) as Registration,
);

/** Changes of an endpoint: absent members stay unchanged, `null` removes an optional member. */
export const EndpointPatch = Body(
  "EndpointChange",
  properties((setting) => Type.Optional(schemaOf(setting, "request"))) as Changes,
);

/** A test event; by default `endpoint.test` with a short message. */
export const TestEvent = Body("TestEvent", {
  type: Type.Optional(EventType),
  data: Type.Optional(OpaqueObject),
});

/** The health of an endpoint. */
export const Health = Resource(
  "EndpointHealth",
  {
    status: OneOf(SHOWN_HEALTHS),
    since: Nullable(Timestamp),
    failing_since: Nullable(Timestamp),
    last_error: Nullable(
      Resource("LastFailure", {
        at: Timestamp,
        status: Nullable(Type.Integer()),
        error: OneOf(ATTEMPT_ERRORS),
      }),
    ),
    last_hour: Resource(
      "RecentAttempts",
      { since: Timestamp, attempts: Type.Integer(), succeeded: Type.Integer() },
      { description: "Attempts of the current clock hour and the one before it" },
    ),
    retrying: Type.Integer({ description: "Deliveries that wait for another attempt" }),
    dead_letters: Type.Integer({ description: "Deliveries in the dead-letter queue" }),
  },
  {
    description:
      "Derived from the last 20 attempts. `failing`: the last 5 failed, or 10 failed and the last 3 did not all succeed. `degraded`: 3 or more failed. `unknown`: there was no attempt yet, or the endpoint is `PENDING`. `since` is when the status last changed, `failing_since` when the current row of failures began. About a second old",
  },
);

export const Endpoint = Resource("Endpoint", {
  id: Id("endpoint"),
  ...(properties((setting) => schemaOf(setting, "response")) as Responses),
  state: OneOf(ENDPOINT_STATES),
  disabled_reason: Nullable(OneOf(DISABLED_REASONS)),
  ssf_stream: Type.Optional(
    Id(
      "stream",
      "The stream of security events that it belongs to, whose routes change it; absent otherwise",
    ),
  ),
  health: Health,
  created_at: Timestamp,
  updated_at: Timestamp,
  verification: Resource("EndpointVerification", {
    workflow_id: Type.String(),
    attempts: Type.Integer(),
    last_error: Nullable(Type.String()),
    next_attempt_at: Nullable(Timestamp),
    verified_at: Nullable(Timestamp),
    verified_by: Nullable(OneOf(["status", "echo"])),
  }),
});

/** An endpoint with its secret: the response to its registration. */
export const RegisteredEndpoint = Resource("RegisteredEndpoint", {
  ...Endpoint.properties,
  secret: Type.String({ description: "Shown only here", examples: ["whsec_…"] }),
});

/** The wire form's settings, with the texts before their values. Metadata follow at the end. */
const SHOWN = ENDPOINT_SETTINGS.filter(({ wire }) => wire !== "metadata").map(({ key, wire, kind }) => ({
  key,
  before: `,${JSON.stringify(wire)}:`,
  /** The value of an absent JSON text; undefined if the row has values. */
  absent: { headers: "{}", object: "null", authentication: "null" }[kind as string],
}));

/** Returns the JSON members of the settings, each after a comma. Rows contain JSON texts as `JSON.stringify` makes them. */
function shownSettings(row: EndpointSettings): string {
  let text = "";
  for (const { key, before, absent } of SHOWN) {
    const value = row[key];
    text += before + (absent === undefined ? JSON.stringify(value) : ((value as string | null) ?? absent));
  }
  return text;
}

/** Returns the wire form of the activity of an endpoint in this state. */
export function toHealth(state: EndpointState, activity: ReportedActivity): Static<typeof Health> {
  const { health, health_since, results, failing_since, lastFailure, recent, retrying, dead } = activity;
  const status = shownHealth(state, health, results);
  return {
    status,
    since: status === "unknown" ? null : (health_since?.toISOString() ?? null),
    failing_since: failing_since?.toISOString() ?? null,
    last_error: lastFailure && { ...lastFailure, at: lastFailure.at.toISOString() },
    last_hour: {
      since: recent.since.toISOString(),
      attempts: recent.attempts,
      succeeded: recent.attempts - recent.failed,
    },
    retrying,
    dead_letters: dead,
  };
}

/** Returns the wire form of an endpoint's row, with its metadata as submitted, and `secret` if given. */
export function toEndpointJson(row: EndpointRow, activity: ReportedActivity, secret?: string): string {
  const others = {
    state: row.state,
    disabled_reason: row.disabled_reason,
    ...(row.ssf_stream === null ? {} : { ssf_stream: row.ssf_stream }),
    health: toHealth(row.state, activity),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    verification: {
      workflow_id: verifyWorkflowId(row.id, row.generation),
      attempts: row.verification_attempts,
      last_error: row.verification_last_error,
      next_attempt_at: row.verification_next_attempt_at?.toISOString() ?? null,
      verified_at: row.verified_at?.toISOString() ?? null,
      verified_by: row.verified_by,
    },
    ...(secret === undefined ? {} : { secret }),
  };
  const wire = `{"id":"${row.id}"${shownSettings(row)},${JSON.stringify(others).slice(1)}`;
  return spliceMember(wire, "metadata", row.metadata ?? "null");
}
