import { ATTEMPT_MAX } from "#domain/retry-schedule.ts";
import { type Static, Type } from "typebox";
import type { Attempt as OpenAttempt } from "#webhooks/engine/delivery-service.ts";
import { ATTEMPT_ERRORS, DEAD_LETTER_REASONS, DELIVERY_STATES } from "#domain/delivery.ts";
import { jsonPresenter, presenter } from "#http/present.ts";
import { Instant } from "#http/instants.ts";
import { Id, MetadataQuery, Nullable, OneOf, PageQuery, Resource, Timestamp } from "#http/common.ts";
import { EventType } from "./endpoints.ts";

const AttemptError = OneOf(ATTEMPT_ERRORS);

/** Filters of deliveries and dead letters. */
export const DeliveryFilters = {
  endpoint_id: Type.Optional(Id("endpoint")),
  event_id: Type.Optional(Id("event")),
  event_type: Type.Optional(EventType),
  state: Type.Optional(OneOf(DELIVERY_STATES)),
  from: Type.Optional(Instant),
  to: Type.Optional(Instant),
  last_error: Type.Optional(AttemptError),
  last_status: Type.Optional(Type.Integer({ minimum: 100, maximum: 999 })),
  reason: Type.Optional(OneOf(DEAD_LETTER_REASONS)),
};

export const DeliveryQuery = { ...DeliveryFilters, ...MetadataQuery, ...PageQuery };

export const Delivery = Resource("Delivery", {
  id: Id("delivery"),
  event_id: Id("event"),
  event_type: Type.String(),
  endpoint_id: Id("endpoint"),
  state: OneOf(DELIVERY_STATES),
  cycle: Type.Integer({ description: "Number of the cycle: 1, plus 1 for each replay or resend" }),
  attempt_count: Type.Integer({ description: `Completed attempts in this cycle, of ${ATTEMPT_MAX}` }),
  next_attempt_at: Nullable(Timestamp),
  last_status: Nullable(Type.Integer()),
  last_error: Nullable(AttemptError),
  workflow_id: Nullable(
    Type.String({
      description:
        "The Temporal workflow that makes the delivery or holds the dead letter; null until a worker claims the delivery, and for seconds between two workflows",
    }),
  ),
  created_at: Timestamp,
  delivered_at: Nullable(Timestamp),
  dead_lettered_at: Nullable(Timestamp),
  expires_at: Nullable(Timestamp),
});

export type Delivery = Static<typeof Delivery>;

export const DeadLetter = Resource("DeadLetter", {
  ...Delivery.properties,
  reason: Nullable(OneOf(DEAD_LETTER_REASONS)),
  event: Nullable(Type.Unsafe<unknown>({ type: "object", additionalProperties: true })),
});

export const DeadLetterGroup = Resource("DeadLetterGroup", {
  endpoint_id: Id("endpoint"),
  reason: OneOf(DEAD_LETTER_REASONS),
  last_error: Nullable(AttemptError),
  count: Type.Integer({ description: "A stored count: up to a second late when dead letters expire" }),
});

export const DeadLetterSummary = Resource("DeadLetterSummary", {
  total: Type.Integer({ description: "A stored count: up to a second late when dead letters expire" }),
  oldest_at: Nullable(Timestamp),
  first_expires_at: Nullable(Timestamp),
});

export const Attempt = Resource("Attempt", {
  id: Id("attempt"),
  cycle: Type.Integer(),
  attempt: Type.Integer(),
  started_at: Timestamp,
  duration_ms: Nullable(Type.Integer({ description: "Null while the request is in flight" })),
  status: Nullable(Type.Integer()),
  error: Nullable(AttemptError),
  response_body: Nullable(Type.String({ description: "The first 4 KiB; erased with the event's content" })),
  resend: Type.Optional(Type.Boolean({ description: "True if a resend began its cycle; otherwise absent" })),
});

export const toDelivery = presenter(Delivery);

export const toDeadLetterGroup = presenter(DeadLetterGroup);

export const toDeadLetterSummary = presenter(DeadLetterSummary);

export const toDeadLetterJson = jsonPresenter(DeadLetter, "event");

const attemptOf = presenter(Attempt);

/** Returns the wire form of an attempt's row. */
export function toAttempt(row: OpenAttempt): Static<typeof Attempt> {
  return attemptOf(row.resent ? { ...row, resend: true } : row);
}
