/**
 * Carries out attempts, once each (architecture 3): what has an outcome is not sent again, what is under way here is
 * joined, what is under way elsewhere is waited for until its lease has passed. May be called any number of times
 * for the same attempt, also beside itself.
 */
import type { Clock } from "../domain/clock.ts";
import type { AttemptKey, LoadedDelivery } from "../database/repositories/attempts.ts";
import { ATTEMPT_MAX, nextDueMs, shiftForLateness } from "../domain/retry-schedule.ts";
import type { Recorder } from "./recorder.ts";
import type { DeliverySender, SentAttempt } from "./delivery-sender.ts";

/** A request lives 10 s to its headers and 2 s to the end of its body; then it has certainly ended. */
export const LEASE_MS = 15_000;
/** First attempts are waited for so long; the rest is `settle`'s. */
export const FIRST_WAIT_MS = 1_000;

/** The schedule as the workflow passes it; instants are Unix milliseconds. */
export interface AttemptPlan {
  readonly attempt: number;
  readonly offsetsMs: readonly number[];
  readonly anchorMs: number | null;
  readonly dueMs: number | null;
  readonly deadLetterMs: number;
}

/** What became of one member. `dueMs`: when its next attempt is due. */
export type MemberOutcome =
  | { readonly kind: "delivered" | "dead" | "moved" | "unsettled" }
  | { readonly kind: "failed"; readonly dueMs: number };

export interface AttemptRun {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** In the order of the members. */
  readonly outcomes: readonly MemberOutcome[];
}

export interface AttemptRequest {
  readonly carrier: string;
  readonly members: readonly { readonly id: string; readonly epoch: number }[];
  readonly plan: AttemptPlan;
  /** Return after a second what is known by then; otherwise wait until every outcome is known. */
  readonly hurry: boolean;
}

export interface AttemptService {
  /** @throws when the database cannot be read or refuses what is to be written; nothing was sent twice then */
  run(request: AttemptRequest): Promise<AttemptRun>;
  /** Resolves when no request is under way and every outcome is written. */
  drain(): Promise<void>;
}

export interface AttemptServiceOptions {
  readonly load: (key: AttemptKey) => Promise<LoadedDelivery | undefined>;
  /** Takes a delivery whose endpoint is gone or disabled out of the schedule. */
  readonly park: (key: AttemptKey, to: "DEAD_LETTERED" | "CANCELLED", plan: AttemptPlan) => Promise<void>;
  readonly sender: DeliverySender;
  readonly recorder: Recorder;
  readonly clock: Clock;
  readonly wait: (ms: number) => Promise<void>;
  readonly newAttemptId: () => string;
}

interface Flight {
  readonly startedAtMs: number;
  readonly delivery: LoadedDelivery;
  readonly attemptId: string;
  readonly outcome: Promise<MemberOutcome>;
}

const LEASE_POLL_MS = 500;
const UNSETTLED: MemberOutcome = { kind: "unsettled" };

export function createAttemptService(options: AttemptServiceOptions): AttemptService {
  const { clock, recorder, sender } = options;
  const flights = new Map<string, Flight>();

  function launch(key: AttemptKey, delivery: LoadedDelivery, plan: AttemptPlan): Flight {
    const flightKey = `${key.deliveryId}/${delivery.cycle}/${key.attempt}`;
    const startedAtMs = clock.now();
    const attemptId = options.newAttemptId();
    const outcome = sender
      .send(delivery, key.attempt)
      .then(async (sent) => await book({ key, delivery, plan, attemptId, sent }))
      .finally(() => flights.delete(flightKey));
    // The caller may have left by the time this fails; whoever joins the flight still sees the failure.
    outcome.catch(() => undefined);
    const flight = { startedAtMs, delivery, attemptId, outcome };
    flights.set(flightKey, flight);
    return flight;
  }

  async function book(landed: {
    key: AttemptKey;
    delivery: LoadedDelivery;
    plan: AttemptPlan;
    attemptId: string;
    sent: SentAttempt;
  }): Promise<MemberOutcome> {
    const { key, delivery, plan, attemptId, sent } = landed;
    const endedAtMs = sent.startedAtMs + sent.durationMs;
    const outcome = judge(plan, sent);
    await recorder.outcome({
      ...key,
      attemptId,
      tenantId: delivery.tenantId,
      cycle: delivery.cycle,
      startedAt: new Date(sent.startedAtMs),
      durationMs: sent.durationMs,
      status: sent.status,
      error: sent.error,
      responseBody: sent.responseBody,
      nextState:
        outcome.kind === "delivered" ? "DELIVERED" : outcome.kind === "failed" ? "RETRYING" : "DEAD_LETTERED",
      nextAttemptAt: outcome.kind === "failed" ? new Date(outcome.dueMs) : null,
      endedAt: new Date(endedAtMs),
      expiresAt: outcome.kind === "dead" ? new Date(endedAtMs + plan.deadLetterMs) : null,
    });
    return outcome;
  }

  /** One member up to a durable outcome. */
  async function settleMember(
    key: AttemptKey,
    plan: AttemptPlan,
    onFlight: (flight: Flight) => void,
  ): Promise<MemberOutcome> {
    for (;;) {
      const delivery = await options.load(key);
      if (delivery === undefined) {
        return { kind: "moved" };
      }
      if (delivery.durationMs !== null) {
        return recorded(delivery, clock);
      }
      if (delivery.state !== "QUEUED" && delivery.state !== "RETRYING") {
        return { kind: delivery.state === "DEAD_LETTERED" ? "dead" : "moved" };
      }
      const joined = flights.get(`${key.deliveryId}/${delivery.cycle}/${key.attempt}`);
      if (joined !== undefined) {
        onFlight(joined);
        return await joined.outcome;
      }
      if (delivery.leaseUntil !== null && delivery.leaseUntil.getTime() > clock.now()) {
        await options.wait(Math.min(LEASE_POLL_MS, delivery.leaseUntil.getTime() - clock.now() + 1));
        continue;
      }
      if (delivery.endpointState === "DELETED" || delivery.endpointState === "DISABLED") {
        const to = delivery.endpointState === "DELETED" ? "CANCELLED" : "DEAD_LETTERED";
        await options.park(key, to, plan);
        return { kind: to === "CANCELLED" ? "moved" : "dead" };
      }
      const flight = launch(key, delivery, plan);
      onFlight(flight);
      return await flight.outcome;
    }
  }

  async function lease(flight: Flight, key: AttemptKey): Promise<void> {
    await recorder.inFlight({
      attemptId: flight.attemptId,
      deliveryId: key.deliveryId,
      tenantId: flight.delivery.tenantId,
      cycle: flight.delivery.cycle,
      attempt: key.attempt,
      startedAt: new Date(flight.startedAtMs),
      leaseUntil: new Date(flight.startedAtMs + LEASE_MS),
    });
  }

  /** A member whose request outlives the first second gets a lease; a caller in a hurry leaves then. */
  async function runMember(
    key: AttemptKey,
    plan: AttemptPlan,
    { patience, leaveAfterwards }: { patience: Promise<void>; leaveAfterwards: boolean },
  ): Promise<MemberOutcome> {
    let flight: Flight | undefined;
    const outcome = settleMember(key, plan, (launched) => {
      flight = launched;
    });
    const first = await Promise.race([outcome, patience.then(() => undefined)]);
    if (first !== undefined) {
      return first;
    }
    if (flight !== undefined) {
      await lease(flight, key);
    }
    if (!leaveAfterwards) {
      return await outcome;
    }
    outcome.catch(() => undefined);
    return UNSETTLED;
  }

  return {
    run: async ({ carrier, members, plan, hurry }) => {
      const startedAtMs = clock.now();
      const patience = options.wait(FIRST_WAIT_MS);
      const shiftMs =
        plan.dueMs === null ? 0 : shiftForLateness(plan.offsetsMs, plan.attempt, startedAtMs - plan.dueMs);
      const shifted = { ...plan, anchorMs: (plan.anchorMs ?? startedAtMs) + shiftMs };
      const outcomes = await Promise.all(
        members.map(
          async (member) =>
            await runMember(
              { deliveryId: member.id, epoch: member.epoch, carrier, attempt: plan.attempt },
              shifted,
              { patience, leaveAfterwards: hurry },
            ),
        ),
      );
      return { startedAtMs, endedAtMs: clock.now(), outcomes };
    },
    drain: async () => {
      await Promise.allSettled([...flights.values()].map(async (flight) => await flight.outcome));
      await recorder.drain();
    },
  };
}

/** What an answer means for the delivery. */
function judge(plan: AttemptPlan, sent: SentAttempt): MemberOutcome {
  if (sent.error === null) {
    return { kind: "delivered" };
  }
  if (plan.attempt >= ATTEMPT_MAX) {
    return { kind: "dead" };
  }
  return {
    kind: "failed",
    dueMs: nextDueMs({
      offsets: plan.offsetsMs,
      anchorMs: plan.anchorMs ?? sent.startedAtMs,
      attempt: plan.attempt,
      endedAtMs: sent.startedAtMs + sent.durationMs,
      retryAfterMs: sent.retryAfterMs,
    }),
  };
}

/** The outcome that an earlier run of this activity wrote. */
function recorded(delivery: LoadedDelivery, clock: Clock): MemberOutcome {
  if (delivery.error === null) {
    return { kind: "delivered" };
  }
  switch (delivery.state) {
    case "QUEUED":
    case "RETRYING":
      return { kind: "failed", dueMs: delivery.nextAttemptAt?.getTime() ?? clock.now() };
    case "DEAD_LETTERED":
      return { kind: "dead" };
    case "DELIVERED":
    case "EXPIRED":
    case "CANCELLED":
      return { kind: "moved" };
  }
}
