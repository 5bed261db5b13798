/** What comes of the members of a run: their schedule, their outcomes, and what follows from the rows that were read. */
import type { AttemptKey, LoadedDelivery } from "../../database/repositories/webhooks/attempts.ts";
import type { Clock } from "../../domain/clock.ts";
import type { Place } from "../../domain/place.ts";
import { shiftForLateness } from "../../domain/retry-schedule.ts";

/** Members of a run that fall due within this time of each other again are tried again together: timers are no finer. */
const ALIGN_MS = 50;
/** The same where the receiver asked for a wait, which it states in seconds. */
const ALIGN_ASKED_MS = 1_000;
const PAUSE_MAX_MS = 900_000;

/** The schedule as the workflow passes it; instants are Unix milliseconds. */
export interface AttemptPlan {
  readonly attempt: number;
  readonly offsetsMs: readonly number[];
  readonly anchorMs: number | null;
  readonly dueMs: number | null;
  readonly deadLetterMs: number;
  /** Who fails leaves the carrier, for a list of its own endpoint. */
  readonly part: boolean;
}

interface Member {
  readonly id: string;
  readonly epoch: number;
}

export interface AttemptRequest {
  readonly carrier: string;
  readonly members: readonly Member[];
  readonly plan: AttemptPlan;
  /** Return after a second what is known by then; otherwise wait until every outcome is known. */
  readonly hurry: boolean;
  /** Of members that waited for a rate limit, by index. */
  readonly places?: ReadonlyMap<number, Place>;
}

export function attemptKey({ carrier, plan }: AttemptRequest, { id, epoch }: Member): AttemptKey {
  return { deliveryId: id, epoch, carrier, attempt: plan.attempt };
}

/** What became of one member. */
export type MemberOutcome =
  | { readonly kind: "delivered" | "dead" | "moved" | "unsettled" }
  /** The next attempt is due at this instant, Unix milliseconds; `asked`: the receiver asked to wait until then. */
  | { readonly kind: "failed"; readonly dueMs: number; readonly asked: boolean }
  /** It is to be tried again at this instant, Unix milliseconds; with its place, if it waits for one. */
  | { readonly kind: "postponed"; readonly dueMs: number; readonly place?: Place };

/** Whether there is nothing to send, or no key to open it with. */
export function isErased({ data, contentBytes, wrappedDataKey }: LoadedDelivery): boolean {
  return (data === null && contentBytes === null) || wrappedDataKey === "";
}

/**
 * Those that failed or were postponed together, and differ in when they fall due by what their requests took, stay
 * together: an activity of its own for each would cost Temporal more than the attempt.
 */
export function aligned(outcomes: readonly MemberOutcome[]): readonly MemberOutcome[] {
  const latestMs = { failed: 0, asked: 0, postponed: 0 };
  for (const outcome of outcomes) {
    if ("dueMs" in outcome) {
      const kind = alignedAs(outcome);
      latestMs[kind] = Math.max(latestMs[kind], outcome.dueMs);
    }
  }
  return outcomes.map((outcome) => {
    if (!("dueMs" in outcome)) {
      return outcome;
    }
    const kind = alignedAs(outcome);
    const withinMs = kind === "asked" ? ALIGN_ASKED_MS : ALIGN_MS;
    return latestMs[kind] - outcome.dueMs <= withinMs ? { ...outcome, dueMs: latestMs[kind] } : outcome;
  });
}

function alignedAs(
  outcome: Extract<MemberOutcome, { readonly dueMs: number }>,
): "failed" | "asked" | "postponed" {
  return outcome.kind === "failed" && outcome.asked ? "asked" : outcome.kind;
}

/** When to look again at a delivery that waits for something other than its receiver: seldom, if that takes long. */
export function pauseMs(forMs: number, minimumMs: number): number {
  return Math.min(Math.max(forMs / 2, minimumMs), PAUSE_MAX_MS);
}

/**
 * The plan with its anchor: the first attempt sets it, an attempt that an outage made late moves it. An anchor in the
 * future was stamped by a wrong clock: the schedule goes on from the present.
 */
export function anchored(plan: AttemptPlan, startedAtMs: number): AttemptPlan {
  const { offsetsMs, attempt, dueMs } = plan;
  const shiftMs = dueMs === null ? 0 : shiftForLateness(offsetsMs, attempt, startedAtMs - dueMs);
  return { ...plan, anchorMs: Math.min(plan.anchorMs ?? startedAtMs, startedAtMs) + shiftMs };
}

/** The outcome that an earlier run wrote, or that the delivery's state dictates; undefined: to be attempted. */
export function outcomeOf(delivery: LoadedDelivery | undefined, clock: Clock): MemberOutcome | undefined {
  if (delivery === undefined) {
    return { kind: "moved" };
  }
  const attempted = delivery.durationMs !== null;
  if (attempted && delivery.error === null) {
    return { kind: "delivered" };
  }
  if (delivery.state === "DEAD_LETTERED") {
    return { kind: "dead" };
  }
  if (delivery.state !== "QUEUED" && delivery.state !== "RETRYING") {
    return { kind: "moved" };
  }
  if (!attempted) {
    return undefined;
  }
  // The row does not say why it is due then; to wait is right in either case.
  return { kind: "failed", dueMs: delivery.nextAttemptAt?.getTime() ?? clock.now(), asked: true };
}
