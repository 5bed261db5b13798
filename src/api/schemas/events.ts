import { Type } from "typebox";
import { IDEMPOTENCY_HOURS } from "#domain/idempotency.ts";
import { Instant } from "#http/instants.ts";
import { Body, Documented, Id, Nullable, OpaqueObject, Resource, TextLine, Timestamp } from "#http/common.ts";
import type { Sdk } from "../openapi/sdk.ts";
import { EventType } from "./endpoints.ts";
import { presenter } from "#http/present.ts";

/** Maximum size of an event's data, in bytes. */
export const EVENT_MAX = 262_144;
/** Maximum nesting depth of `data`. */
export const EVENT_DATA_DEPTH = 64;

/** The time of signing, in a signed body. */
const SentAt = Type.Integer({
  minimum: 0,
  maximum: 999_999_999_999,
  description: "Unix seconds, as in the header X-Service-Timestamp; only in a signed body",
});

/** The publisher's own id of an event. */
export const SourceId = TextLine(128, {
  description: `The publisher's own id. An event repeated with the same id within ${IDEMPOTENCY_HOURS} hours is published once`,
  examples: ["order-7"],
});

export const NewEvent = Body("EventInput", {
  type: EventType,
  data: OpaqueObject,
  id: Type.Optional(SourceId),
  occurred_at: Type.Optional(Instant),
  tenant_id: Type.Optional(Id("tenant")),
  sent_at: Type.Optional(SentAt),
});

/** Maximum number of events per request. */
const BATCH_EVENTS_MAX = 1_000;
/** Maximum size of a batch request, in bytes. */
export const BATCH_MAX = 4_194_304;

/** Items are validated separately, so that an invalid item does not reject the others. */
export const EventBatch = Body("EventBatch", {
  events: Type.Array(Type.Unsafe<unknown>(Documented(NewEvent)), { minItems: 1, maxItems: BATCH_EVENTS_MAX }),
  id: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: "The batch's id; only in a signed body" }),
  ),
  sent_at: Type.Optional(SentAt),
});

export const AcceptedEvent = Resource("AcceptedEvent", {
  id: Id("event"),
  type: Type.String(),
  created_at: Timestamp,
  deliveries: Type.Integer({ description: "Number of endpoints that get the event" }),
});

export const StoredEvent = Resource("StoredEvent", {
  id: Id("event"),
  type: Type.String(),
  source_id: Nullable(Type.String()),
  occurred_at: Timestamp,
  created_at: Timestamp,
  deliveries: Type.Integer(),
  content_erased_at: Nullable(Timestamp),
  data: Nullable(
    Type.Unsafe<unknown>({
      type: "object",
      additionalProperties: true,
      description: "Null once it is erased",
    }),
  ),
});

/** An event as operators read it: without its content. */
export const OperatorEvent = Resource("Event", {
  id: Id("event"),
  tenant_id: Id("tenant"),
  type: Type.String(),
  source_id: Nullable(Type.String({ description: "The publisher's own id" })),
  occurred_at: Timestamp,
  created_at: Timestamp,
  deliveries: Type.Integer({ description: "Number of deliveries at its acceptance" }),
  content_erased_at: Nullable(Timestamp),
});

export const toOperatorEvent = presenter(OperatorEvent);

/** The methods of the SDKs that publish: one event, or several. */
export const PUBLISHING_METHODS: Sdk = [
  {
    name: "events.publish",
    takes: "NewEvent",
    returns: "AcceptedEvent",
    text: "Publish an event. It is stored durably when this returns",
  },
  {
    name: "events.publishBatch",
    takes: "EventBatch",
    body: "members",
    without: ["id"],
    returns: "AcceptedBatch",
    text: "Publish up to 1,000 events, 4 MiB, in one request. Items succeed or fail independently: check each for an error",
  },
];
