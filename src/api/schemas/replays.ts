import { type Static, Type } from "typebox";
import {
  REPLAY_KINDS,
  REPLAY_STATES,
  type ReplayJob as ReplayJobRow,
} from "#database/repositories/webhooks/replay-jobs.ts";
import {
  type Counted,
  type ItemOutcomes,
  REPLAY_OUTCOMES,
  REPLAY_RESULTS,
  REPLAYABLE_STATES,
  type ReplayItem as ReplayItemRow,
  type ReplayResult,
} from "#database/repositories/webhooks/replay-items.ts";
import {
  COMPARED_MAX,
  type CountedOutcomes,
  OUTCOMES_MAX,
  REPLAY_IDS_MAX,
  REPLAY_RATE,
} from "#webhooks/replay/replay-service.ts";
import { Instant } from "#http/instants.ts";
import { Body, Id, MetadataQuery, Nullable, OneOf, Resource, Timestamp } from "#http/common.ts";
import { DeliveryFilters } from "./deliveries.ts";
import { presenter } from "#http/present.ts";

const Pace = {
  dry_run: Type.Optional(Type.Boolean({ description: "Only counts; creates no job" })),
  rate_per_second: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: REPLAY_RATE.max,
      description: `Maximum replays per second; ${REPLAY_RATE.default} by default`,
    }),
  ),
};

/** Selects dead letters either by id or by the filters of the list. */
export const NewReplay = Body("DeadLetterReplay", {
  ids: Type.Optional(Type.Array(Id("delivery"), { minItems: 1, maxItems: REPLAY_IDS_MAX })),
  filter: Type.Optional(Body("DeadLetterFilter", { ...DeliveryFilters, ...MetadataQuery })),
  ...Pace,
});
export type NewReplay = Static<typeof NewReplay>;

/** States that a replay selects by default: all that can still fail or has failed. */
export const RECOVERED_STATES = ["DEAD_LETTERED", "RETRYING"] as const;

const { state: _state, ...RecoveryFilters } = DeliveryFilters;

/** Selects deliveries by their states and by the filters of the list. */
export const NewRecovery = Body("ReplayInput", {
  states: Type.Optional(
    Nullable(
      Type.Array(OneOf(REPLAYABLE_STATES), {
        minItems: 1,
        maxItems: REPLAYABLE_STATES.length,
        description: `By default, ${RECOVERED_STATES.map((state) => `\`${state}\``).join(" and ")}`,
      }),
    ),
  ),
  filter: Body("DeliveryFilter", { ...RecoveryFilters, ...MetadataQuery }),
  ...Pace,
});

export const NewMissingReplay = Body("MissedEvents", {
  since: Instant,
  until: Type.Optional(Instant),
  ...Pace,
});

export const ReplayCount = Resource("ReplayCount", {
  dry_run: Type.Boolean({ description: "True: nothing was created" }),
  total: Type.Integer(),
  would_fail: Type.Optional(
    Type.Integer({
      description:
        "How many of them would fail now, because their endpoint is disabled, unverified or deleted. Present if any would",
    }),
  ),
  at_least: Type.Optional(
    Type.Boolean({
      description: `True, and present, if ${COMPARED_MAX} deliveries or more would have to be compared: the oldest of them were counted`,
    }),
  ),
});

export type ReplayCount = Static<typeof ReplayCount>;

/** Returns the wire form of a count. */
export function toReplayCount({ total, wouldFail, complete }: Counted): ReplayCount {
  return {
    dry_run: true,
    total,
    ...(wouldFail === 0 ? {} : { would_fail: wouldFail }),
    ...(complete ? {} : { at_least: true }),
  };
}

export const ReplayJob = Resource("ReplayJob", {
  id: Id("replay"),
  kind: OneOf(REPLAY_KINDS),
  endpoint_id: Nullable(Id("endpoint")),
  states: Nullable(
    Type.Array(OneOf(REPLAYABLE_STATES), { description: "Selected states; null for other kinds" }),
  ),
  state: OneOf(REPLAY_STATES),
  total: Type.Integer({ description: "Items so far; final once `listing` is false" }),
  listing: Type.Boolean({
    description: "Whether items are still being listed, while the first are replayed",
  }),
  done: Type.Integer({ description: "Replayed items, and retries that were made due" }),
  failed: Type.Integer({
    description:
      "Items that could not be replayed: expired, not found, or their endpoint is disabled or deleted",
  }),
  skipped: Type.Integer({
    description: "Items that need no replay: changed since, erased, or already delivered",
  }),
  rate_per_second: Type.Integer(),
  created_at: Timestamp,
  finished_at: Nullable(Timestamp),
});

const replayOf = presenter(ReplayJob);

/** Returns the wire form of a job. */
export function toReplay(row: ReplayJobRow): Static<typeof ReplayJob> {
  return replayOf({ ...row, listing: row.listing !== null });
}

/** States of a job's items. */
export const ITEM_STATES = ["WAITING", "DONE", "SKIPPED", "FAILED", "CANCELLED"] as const;
type ItemState = (typeof ITEM_STATES)[number];

const STATE_OF: Readonly<Record<ReplayResult, ItemState>> = {
  replayed: "DONE",
  attempted: "DONE",
  not_in_queue: "SKIPPED",
  state_changed: "SKIPPED",
  content_erased: "SKIPPED",
  delivery_exists: "SKIPPED",
  expired: "FAILED",
  not_found: "FAILED",
  endpoint_disabled: "FAILED",
  endpoint_unavailable: "FAILED",
};

export const ItemQuery = {
  state: Type.Optional(OneOf(ITEM_STATES)),
  outcome: Type.Optional(OneOf(REPLAY_OUTCOMES)),
};

/** Counts of a job's replays. */
export const ReplayOutcomes = Resource(
  "ReplayOutcomes",
  {
    delivered: Type.Integer(),
    retrying: Type.Integer({ description: "Failed at least once since, and is retried" }),
    failed: Type.Integer({ description: "Dead letters again" }),
    cancelled: Type.Integer(),
    waiting: Type.Integer({ description: "No outcome yet" }),
    counted: Type.Optional(
      Type.Integer({
        description: `Items that were looked at, the first of the job. Present if the job has more than ${OUTCOMES_MAX}`,
      }),
    ),
  },
  { description: "What the replays of a job have come to" },
);

/** Returns the wire form of the counts. */
export function toOutcomes({ counts, counted, complete }: CountedOutcomes): Static<typeof ReplayOutcomes> {
  return {
    ...(complete ? {} : { counted }),
    delivered: counts.DELIVERED,
    retrying: counts.RETRYING,
    failed: counts.FAILED,
    cancelled: counts.CANCELLED,
    waiting: counts.WAITING,
  };
}

/** Returns the outcomes of items in a state. */
export function outcomesOf(state: ItemState | undefined): ItemOutcomes | undefined {
  if (state === undefined || state === "WAITING" || state === "CANCELLED") {
    return state;
  }
  return REPLAY_RESULTS.filter((result) => STATE_OF[result] === state);
}

function isReason(result: ReplayResult): result is Exclude<ReplayResult, "replayed" | "attempted"> {
  return STATE_OF[result] !== "DONE";
}

export const ReplayItem = Resource("ReplayItem", {
  position: Type.Integer({ description: "Position in the order of replay, from 1" }),
  delivery_id: Nullable(Id("delivery")),
  event_id: Nullable(Id("event")),
  state: OneOf(ITEM_STATES),
  reason: Nullable(OneOf(REPLAY_RESULTS.filter(isReason))),
  outcome: Nullable(OneOf(REPLAY_OUTCOMES)),
});

const itemOf = presenter(ReplayItem);

/** Returns the wire form of an item. */
export function toReplayItem(row: ReplayItemRow): Static<typeof ReplayItem> {
  const { result, cancelled } = row;
  return itemOf({
    ...row,
    state: result === null ? (cancelled ? "CANCELLED" : "WAITING") : STATE_OF[result],
    reason: result === null || !isReason(result) ? null : result,
  });
}
