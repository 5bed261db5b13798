import { Type } from "typebox";
import { Instant } from "../../http/instants.ts";
import { Closed, Id, Nullable, OpaqueObject, TextLine, Timestamp } from "../../http/common.ts";
import { EventType } from "./endpoints.ts";

/** Bytes of one event's data. */
export const EVENT_MAX = 262_144;
/** Deepest nesting inside `data`. */
export const EVENT_DATA_DEPTH = 64;

/** The time of the signature, in a signed body. */
const SentAt = Type.Integer({
  minimum: 0,
  maximum: 999_999_999_999,
  description: "Unix seconds, as in the header X-Service-Timestamp; in a signed body only",
});

/** What a publisher calls its event. */
export const SourceId = TextLine(128, {
  description: "The publisher's own id: the same event sent again with it within 24 hours is published once",
  examples: ["order-7"],
});

export const NewEvent = Closed({
  type: EventType,
  data: OpaqueObject,
  id: Type.Optional(SourceId),
  occurred_at: Type.Optional(Instant),
  tenant_id: Type.Optional(Id("tenant")),
  sent_at: Type.Optional(SentAt),
});

/** Most events of one request. */
const BATCH_EVENTS_MAX = 1_000;
/** Bytes of a batch's request. */
export const BATCH_MAX = 4_194_304;

/** Items are checked one by one: a bad one does not keep the others from being accepted. */
export const EventBatch = Closed({
  events: Type.Array(Type.Unsafe<unknown>({}), { minItems: 1, maxItems: BATCH_EVENTS_MAX }),
  id: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: "The batch's id; in a signed body only" }),
  ),
  sent_at: Type.Optional(SentAt),
});

export const AcceptedEvent = Type.Object({
  id: Id("event"),
  type: Type.String(),
  created_at: Timestamp,
  deliveries: Type.Integer({ description: "How many endpoints it goes to" }),
});

export const StoredEvent = Type.Object({
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
