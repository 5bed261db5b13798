/** Schedules and outcomes of the members of a run, and the conclusions from the rows that were read. */
import type { AttemptKey, LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import { answerOf } from "#domain/delivery.ts";
import type { Clock } from "#domain/clock.ts";
import type { Reservation } from "#domain/reservation.ts";
import { shiftForLateness } from "#domain/retry-schedule.ts";

/** Members that fall due again within this time are retried together. Timers are not finer. */
const ALIGN_MS = 50;
/** The same after a requested wait, which receivers state in seconds. */
const ALIGN_ASKED_MS = 1_000;

/** The schedule as the workflow passes it; instants are Unix milliseconds. */
export interface AttemptPlan {
  readonly attempt: number;
  readonly offsetsMs: readonly number[];
  readonly anchorMs: number | null;
  readonly dueMs: number | null;
  readonly deadLetterMs: number;
  /** Decides, when a member to this endpoint fails, whether it leaves the carrier for a list of its own endpoint. */
  readonly leaves: (endpointId: string) => boolean;
}

interface Member {
  readonly id: string;
  readonly epoch: number;
}

export interface AttemptRequest {
  readonly carrier: string;
  readonly members: readonly Member[];
  readonly plan: AttemptPlan;
  /** Whether to return after a second with what is known. Otherwise the run waits for every outcome. */
  readonly firstPass: boolean;
  /** Reservations of rate-limited members, by index. */
  readonly reservations?: ReadonlyMap<number, Reservation>;
}

export function attemptKey({ carrier, plan }: AttemptRequest, { id, epoch }: Member): AttemptKey {
  return { deliveryId: id, epoch, carrier, attempt: plan.attempt };
}

/** Outcome of one member. */
export type MemberOutcome =
  | { readonly kind: "delivered" | "moved" | "unsettled" }
  | {
      readonly kind: "dead";
      /** Status of the last attempt, or what kept it away; undefined without an attempt, or if another process made it. */
      readonly answer?: string;
    }
  | {
      readonly kind: "failed";
      /** When the next attempt is due, in Unix milliseconds. */
      readonly dueMs: number;
      /** Whether the receiver requested the wait. */
      readonly asked: boolean;
      /** As of a dead one. */
      readonly answer?: string;
      /** When the request ended, in Unix milliseconds; undefined if another process has sent it. */
      readonly answeredMs?: number;
    }
  /** Try again at this time, in Unix milliseconds, with the reservation if there is one. */
  | {
      readonly kind: "postponed";
      readonly dueMs: number;
      readonly reservation?: Reservation;
      /** Whether it waits for a slot of its endpoint. */
      readonly forSlot?: boolean;
    };

/**
 * Aligns the due times of members that failed or were postponed together and differ only by their request durations.
 * Members that wait for slots return together, when the first of them may have one. A separate activity for each would
 * cost Temporal more than the attempt.
 */
export function aligned(outcomes: readonly MemberOutcome[]): readonly MemberOutcome[] {
  const latestMs = { failed: 0, asked: 0, postponed: 0 };
  let slotMs = Number.POSITIVE_INFINITY;
  for (const outcome of outcomes) {
    if (waitsForSlot(outcome)) {
      slotMs = Math.min(slotMs, outcome.dueMs);
    } else if ("dueMs" in outcome) {
      const kind = alignedAs(outcome);
      latestMs[kind] = Math.max(latestMs[kind], outcome.dueMs);
    }
  }
  return outcomes.map((outcome) => {
    if (!("dueMs" in outcome)) {
      return outcome;
    }
    if (waitsForSlot(outcome)) {
      return { ...outcome, dueMs: slotMs };
    }
    const kind = alignedAs(outcome);
    const withinMs = kind === "asked" ? ALIGN_ASKED_MS : ALIGN_MS;
    return latestMs[kind] - outcome.dueMs <= withinMs ? { ...outcome, dueMs: latestMs[kind] } : outcome;
  });
}

type Postponed = Extract<MemberOutcome, { readonly kind: "postponed" }>;

function waitsForSlot(outcome: MemberOutcome): outcome is Postponed {
  return outcome.kind === "postponed" && outcome.forSlot === true;
}

function alignedAs(
  outcome: Extract<MemberOutcome, { readonly dueMs: number }>,
): "failed" | "asked" | "postponed" {
  return outcome.kind === "failed" && outcome.asked ? "asked" : outcome.kind;
}

/**
 * Returns the plan with its anchor. The first attempt sets the anchor; an attempt delayed by an outage moves it. An
 * anchor in the future comes from a wrong clock, so the schedule continues from now.
 */
export function anchored(plan: AttemptPlan, startedAtMs: number): AttemptPlan {
  const { offsetsMs, attempt, dueMs } = plan;
  const shiftMs = dueMs === null ? 0 : shiftForLateness(offsetsMs, attempt, startedAtMs - dueMs);
  return { ...plan, anchorMs: Math.min(plan.anchorMs ?? startedAtMs, startedAtMs) + shiftMs };
}

/**
 * Returns the outcome that an earlier run wrote or that the delivery's state implies; undefined if it is to be
 * attempted.
 */
export function outcomeOf(delivery: LoadedDelivery | undefined, clock: Clock): MemberOutcome | undefined {
  if (delivery === undefined) {
    return { kind: "moved" };
  }
  const attempted = delivery.duration_ms !== null;
  if (attempted && delivery.error === null) {
    return { kind: "delivered" };
  }
  if (delivery.state === "DEAD_LETTERED") {
    return attempted ? { kind: "dead", answer: answerOf(delivery) } : { kind: "dead" };
  }
  if (delivery.state !== "QUEUED" && delivery.state !== "RETRYING") {
    return { kind: "moved" };
  }
  if (!attempted) {
    return undefined;
  }
  // The row does not say why it is due then. Waiting is right in either case.
  return {
    kind: "failed",
    dueMs: delivery.next_attempt_at?.getTime() ?? clock.now(),
    asked: true,
    answer: answerOf(delivery),
  };
}
