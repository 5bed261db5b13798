/** Schemas of streams of security events (OpenID Shared Signals Framework 1.0, RFC 8936). */
import { type Static, Type } from "typebox";
import type { Stream as StreamRow } from "#database/repositories/webhooks/ssf-streams.ts";
import { SignetError } from "#domain/errors.ts";
import {
  EVENTS_SUPPORTED,
  eventsDelivered,
  STREAM_STATUSES,
  type SubjectId,
} from "#domain/security-events.ts";
import { Body, Closed, Documented, Formed, Id, Named, Nullable, OneOf, Resource } from "#http/common.ts";
import { POLL_SETS_MAX, type SetError } from "#webhooks/ssf/poll.ts";
import { statusOf, VERIFICATION_INTERVAL_S } from "#webhooks/ssf/stream-service.ts";

/** Delivery methods (RFC 8935 and RFC 8936). */
export const PUSH = "urn:ietf:rfc:8935";
export const POLL = "urn:ietf:rfc:8936";

/** Maximum body size of the routes, in bytes. */
export const SSF_BODY_MAX = 65_536;
export const NO_STORE = { "cache-control": "no-store" } as const;
export const EXAMPLE_STREAM = "ssf_01jd3c5xq8m2v7k9r4t6w0zy";

const EVENTS_MAX = 64;
/** Receivers may ask for more than they get. */
const INTEGER_MAX = 2_147_483_647;
const Text = (maxLength: number) =>
  Formed({ pattern: "^[^\\u0000]*$", wanted: "a text without U+0000" }, { maxLength });
const EventUris = Type.Array(
  Formed(
    { pattern: "^[\\x21-\\x7e]+$", wanted: "the URI of an event type" },
    { maxLength: 512, examples: [EVENTS_SUPPORTED[0] ?? ""] },
  ),
  { maxItems: EVENTS_MAX, uniqueItems: true },
);

const StreamId = Id("stream");
export const StreamQuery = Closed({ stream_id: StreamId });
export const OptionalStreamQuery = Closed({ stream_id: Type.Optional(StreamId) });
/** Receivers that build one URL for reads and changes name the stream twice. */
export const SameStreamQuery = Closed({
  stream_id: Type.Optional(Id("stream", "If given, the stream of the body")),
});

/**
 * Returns the stream that the body names.
 *
 * @throws SignetError `INVALID_REQUEST` if the query names another
 */
export function streamOf({
  query,
  body,
}: Readonly<Record<"query" | "body", { stream_id?: string }>>): string {
  const { stream_id: id = "" } = body;
  if (query.stream_id !== undefined && query.stream_id !== id) {
    throw new SignetError("INVALID_REQUEST", {
      detail: "Query parameter stream_id names another stream than the body.",
    });
  }
  return id;
}
export const PollParams = Closed({ stream_id: StreamId });

const NewDelivery = Body("StreamDeliveryInput", {
  method: OneOf([PUSH, POLL], { description: "Push (RFC 8935) or poll (RFC 8936)" }),
  endpoint_url: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 2_048,
      "x-wanted": "an https URL such as https://example.com/events",
      examples: ["https://example.com/events"],
      description: "Where tokens are pushed. The service sets it for polling",
    }),
  ),
  authorization_header: Type.Optional(
    Nullable(
      Formed(
        {
          pattern: "^[\\x21-\\x7e]([\\x20-\\x7e\\t]*[\\x21-\\x7e])?$",
          wanted: "the value of an Authorization header: printable ASCII characters",
        },
        {
          maxLength: 4_096,
          description:
            "Sent with every push. Never shown. Absent in a change to keep it, `null` to remove it",
        },
      ),
    ),
  ),
});

/** What a receiver sets. The other members may be sent back, but must not differ. */
const RECEIVER_SUPPLIED = {
  events_requested: Type.Optional(EventUris),
  delivery: Type.Optional(NewDelivery),
  description: Type.Optional(Text(1_024)),
};

export const NewStream = Body("StreamInput", RECEIVER_SUPPLIED);

export const StreamChange = Body("StreamChange", {
  stream_id: StreamId,
  ...RECEIVER_SUPPLIED,
  iss: Type.Optional(Type.String({ maxLength: 2_048 })),
  aud: Type.Optional(Type.String({ maxLength: 512 })),
  events_supported: Type.Optional(EventUris),
  events_delivered: Type.Optional(EventUris),
  min_verification_interval: Type.Optional(Type.Integer({ minimum: 0, maximum: INTEGER_MAX })),
  endpoint_id: Type.Optional(Id("endpoint")),
});

export const Stream = Resource("Stream", {
  stream_id: StreamId,
  iss: Type.String({ description: "`iss` of the tokens", examples: ["https://signet.example"] }),
  aud: Type.String({ description: "`aud` of the tokens: the id of the stream" }),
  events_supported: Type.Array(Type.String()),
  events_requested: Type.Array(Type.String()),
  events_delivered: Type.Array(Type.String()),
  delivery: Resource("StreamDelivery", { method: OneOf([PUSH, POLL]), endpoint_url: Type.String() }),
  min_verification_interval: Type.Integer({ description: "In seconds" }),
  description: Type.Optional(Type.String()),
  endpoint_id: Type.Optional(
    Id(
      "endpoint",
      "The endpoint of a push stream: its deliveries, attempts and dead letters are the stream's",
    ),
  ),
});

/** The answer of a read with or without an id. */
export const StreamOrStreams = Named("StreamOrStreams", Type.Union([Stream, Type.Array(Stream)]));

/** Returns the wire form of a stream. @param publicUrl base of the address for polling */
export function toStream(stream: StreamRow, publicUrl: string): Static<typeof Stream> {
  const { id, issuer, endpoint_id: endpointId, url, events_requested: eventsRequested, description } = stream;
  return {
    stream_id: id,
    iss: issuer,
    aud: id,
    events_supported: [...EVENTS_SUPPORTED],
    events_requested: [...(eventsRequested ?? EVENTS_SUPPORTED)],
    events_delivered: [...eventsDelivered(eventsRequested)],
    delivery:
      endpointId === null
        ? { method: POLL, endpoint_url: `${publicUrl}/v1/ssf/poll/${id}` }
        : { method: PUSH, endpoint_url: url ?? "" },
    min_verification_interval: VERIFICATION_INTERVAL_S,
    ...(description === null ? {} : { description }),
    ...(endpointId === null ? {} : { endpoint_id: endpointId }),
  };
}

export const StreamStatusChange = Body("StreamStatusChange", {
  stream_id: StreamId,
  status: OneOf(STREAM_STATUSES),
  reason: Type.Optional(Text(512)),
});

export const StreamStatus = Resource("StreamStatus", {
  stream_id: StreamId,
  status: OneOf(STREAM_STATUSES),
  reason: Type.Optional(Type.String()),
});

export function toStreamStatus(stream: StreamRow): Static<typeof StreamStatus> {
  const { status, reason } = statusOf(stream);
  return { stream_id: stream.id, status, ...(reason === null ? {} : { reason }) };
}

/** A subject identifier (RFC 9493). Others than the named formats match no event. */
const Subject = Named(
  "SubjectIdentifier",
  Type.Unsafe<SubjectId>({
    type: "object",
    required: ["format"],
    properties: {
      format: {
        type: "string",
        minLength: 1,
        maxLength: 64,
        description: "`iss_sub`, `opaque` or `jwt_id`; others match no event",
      },
      iss: { type: "string", minLength: 1 },
      sub: { type: "string", minLength: 1, description: "Client id of a credential, or id of a principal" },
      id: { type: "string", minLength: 1, description: "Id of the tenant" },
      jti: { type: "string", minLength: 1, description: "`jti` of a token" },
    },
    additionalProperties: true,
    maxProperties: 16,
    description: "A subject identifier (RFC 9493)",
    examples: [{ format: "iss_sub", iss: "https://signet.example", sub: "prn_01jd3c5xq8m2v7k9r4t6w0zy" }],
  }),
);

export const AddedSubject = Body("AddedSubject", {
  stream_id: StreamId,
  subject: Subject,
  verified: Type.Optional(Type.Boolean({ description: "Has no effect" })),
});
export const RemovedSubject = Body("RemovedSubject", { stream_id: StreamId, subject: Subject });

export const VerificationRequest = Body("VerificationRequest", {
  stream_id: StreamId,
  state: Type.Optional(Type.String({ maxLength: 1_024, description: "Comes back in the event" })),
});

const Jti = Formed(
  { pattern: "^[\\x21-\\x7e]+$", wanted: "the `jti` of a token" },
  { maxLength: 64, description: "`jti` of a token" },
);

export const PollRequest = Body("PollRequest", {
  maxEvents: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: INTEGER_MAX,
      description: `Most tokens in the answer: ${POLL_SETS_MAX} at most and by default; 0 only acknowledges`,
    }),
  ),
  returnImmediately: Type.Optional(
    Type.Boolean({
      description: "Whether to answer at once if there are no tokens; by default after 20 seconds",
    }),
  ),
  ack: Type.Optional(
    Type.Array(Jti, { maxItems: POLL_SETS_MAX, description: "Tokens that need not be sent again" }),
  ),
  setErrs: Type.Optional(
    Type.Unsafe<Readonly<Record<string, SetError>>>({
      type: "object",
      propertyNames: { maxLength: 64, pattern: "^[\\x21-\\x7e]+$" },
      maxProperties: POLL_SETS_MAX,
      additionalProperties: {
        "x-name": "SetError",
        type: "object",
        required: ["err"],
        properties: {
          err: { type: "string", maxLength: 64 },
          description: { type: "string", maxLength: 1_024 },
        },
        additionalProperties: false,
      },
      description: "Errors of tokens that the receiver cannot use, by `jti`. They are not sent again",
      ...Documented({ propertyNames: undefined }),
    }),
  ),
});

export const PollAnswer = Named(
  "PollAnswer",
  Type.Object({
    sets: Type.Unsafe<Readonly<Record<string, string>>>({
      type: "object",
      additionalProperties: { type: "string" },
      description: "Signed tokens by `jti`",
    }),
    moreAvailable: Type.Boolean(),
  }),
);
