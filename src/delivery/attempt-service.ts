/**
 * Carries out attempts, once each (architecture 3): what has an outcome is not sent again, what is under way here is
 * joined, what is under way elsewhere is waited for until its lease has passed. May be called any number of times
 * for the same attempt, also beside itself.
 */
import type { Logger } from "pino";
import type { AttemptKey, LoadedDelivery, ParkedDelivery } from "../database/repositories/attempts.ts";
import type { Clock } from "../domain/clock.ts";
import { stepWhenDue } from "../domain/endpoint-state.ts";
import { shiftForLateness } from "../domain/retry-schedule.ts";
import type { EndpointHealth } from "./endpoint-health.ts";
import { type EndpointPace, PACE_WAIT_MAX_MS } from "./endpoint-pace.ts";
import type { EndpointSlots } from "./endpoint-slots.ts";
import type { Flight, Flights } from "./flights.ts";
import type { Recorder } from "./recorder.ts";

/** First attempts are waited for so long; the rest is `settle`'s. */
const FIRST_WAIT_MS = 1_000;
const LEASE_POLL_MS = 500;
/** The release of a held tenant is noticed by the reconciliation, far sooner. */
const HELD_PAUSE_MIN_MS = 30_000;
/** Most endpoints acknowledge their ping at once. */
const VERIFYING_PAUSE_MIN_MS = 5_000;
const PAUSE_MAX_MS = 900_000;
/** Members of a run that fall due within this time of each other again are tried again together: timers are no finer. */
const ALIGN_MS = 50;

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

/** What became of one member. */
export type MemberOutcome =
  | { readonly kind: "delivered" | "dead" | "moved" | "unsettled" }
  /** The next attempt is due, or a postponed one is to be tried again, at this instant: Unix milliseconds. */
  | { readonly kind: "failed" | "postponed"; readonly dueMs: number };

export interface AttemptRun {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** In the order of the members. */
  readonly outcomes: readonly MemberOutcome[];
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
}

export interface AttemptServiceOptions {
  readonly load: (key: AttemptKey) => Promise<LoadedDelivery | undefined>;
  /** Takes a delivery that cannot be sent out of the schedule. */
  readonly park: (key: AttemptKey, where: Parking, plan: AttemptPlan) => Promise<void>;
  /** Puts off a delivery whose endpoint is being verified; Unix milliseconds. */
  readonly defer: (key: AttemptKey, dueMs: number) => Promise<void>;
  readonly flights: Flights;
  readonly health: EndpointHealth;
  readonly slots: EndpointSlots;
  readonly pace: EndpointPace;
  readonly recorder: Recorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly wait: (ms: number) => Promise<void>;
}

/** Where a delivery goes that cannot be sent, and why. */
type Parking = Pick<ParkedDelivery, "to" | "reason">;

const ERASED: Parking = { to: "CANCELLED", reason: "content_erased" };
const GONE: Parking = { to: "CANCELLED", reason: null };
const DISABLED: Parking = { to: "DEAD_LETTERED", reason: "endpoint_disabled" };

/** One member on its way through a run. */
interface Watch {
  readonly key: AttemptKey;
  readonly plan: AttemptPlan;
  /** The caller leaves after a moment, and waits for nothing but answers. */
  readonly hurry: boolean;
  /** How long the run's members wait before they are sent to an endpoint. */
  readonly paceMs: (endpointId: string) => number;
  flight: Flight | undefined;
  /** The caller has left: what has not been sent by now is not sent on its behalf. */
  left: boolean;
}

export class AttemptService {
  readonly #options: AttemptServiceOptions;
  #firstUnderWay = 0;

  constructor(options: AttemptServiceOptions) {
    this.#options = options;
  }

  /** Members of first attempts under way: what the dispatcher measures its pace by. */
  get firstUnderWay(): number {
    return this.#firstUnderWay;
  }

  /** @throws when the database cannot be read; nothing was sent twice then */
  async run(request: AttemptRequest): Promise<AttemptRun> {
    if (!request.hurry) {
      return await this.#run(request);
    }
    // Who joins what is under way adds nothing to it.
    const fresh = request.members.filter(
      (member) => this.#options.flights.joinOwn(attemptKey(request, member)) === undefined,
    ).length;
    this.#firstUnderWay += fresh;
    try {
      return await this.#run(request);
    } finally {
      this.#firstUnderWay -= fresh;
    }
  }

  /**
   * Begins the first attempts of a carrier whose workflow was started here a moment ago and has its first task here:
   * its activity joins them. What goes wrong is the activity's to mend.
   */
  begin(request: AttemptRequest): void {
    this.run(request).catch((error: unknown) => {
      this.#options.log.debug(
        { err: error, carrier: request.carrier },
        "first attempts were not begun early",
      );
    });
  }

  async #run(request: AttemptRequest): Promise<AttemptRun> {
    const { members, plan, hurry } = request;
    const { clock, wait } = this.#options;
    const startedAtMs = clock.now();
    const shifted = anchored(plan, startedAtMs);
    const patience = wait(FIRST_WAIT_MS);
    const paceMs = this.#pacer(`${members[0]?.id}/${plan.attempt}`, members.length);
    const outcomes = await Promise.all(
      members.map(async (member) => {
        const key = attemptKey(request, member);
        const watch = { key, plan: shifted, hurry, paceMs, flight: undefined, left: false };
        return await this.#watch(watch, patience);
      }),
    );
    return { startedAtMs, endedAtMs: clock.now(), outcomes: aligned(outcomes) };
  }

  /** Resolves when no request is under way and every outcome is written. */
  async drain(): Promise<void> {
    await this.#options.flights.drain();
    await this.#options.recorder.drain();
  }

  /** One place in each failing endpoint's line for the whole run: members that wait the same time stay together. */
  #pacer(run: string, members: number): (endpointId: string) => number {
    const { clock, health, pace } = this.#options;
    const waits = new Map<string, number>();
    return (endpointId) => {
      const nowMs = clock.now();
      const waitMs =
        waits.get(endpointId) ??
        (health.isSlow(endpointId, nowMs) ? pace.reserve(endpointId, run, members, nowMs) : 0);
      waits.set(endpointId, waitMs);
      return waitMs;
    };
  }

  /** A member whose request outlives the first second gets a lease; a caller in a hurry leaves then. */
  async #watch(watch: Watch, patience: Promise<void>): Promise<MemberOutcome> {
    const outcome = this.#settle(watch);
    const early = await Promise.race([outcome, patience.then(() => undefined)]);
    if (early !== undefined) {
      return early;
    }
    if (watch.hurry) {
      watch.left = true;
      outcome.catch(() => undefined);
    }
    const { flight } = watch;
    if (flight !== undefined) {
      const { clock, health } = this.#options;
      // The run may have been slow before it sent: that is ours, not the receiver's.
      if (clock.now() - flight.startedAtMs >= FIRST_WAIT_MS) {
        health.noteUnanswered(flight.endpointId, clock.now());
      }
      await flight.lease();
    }
    return watch.hurry ? { kind: "unsettled" } : await outcome;
  }

  /** One member up to a durable outcome. */
  async #settle(watch: Watch): Promise<MemberOutcome> {
    const { clock, flights, wait } = this.#options;
    const { key } = watch;
    watch.flight = flights.joinOwn(key);
    const joined = await watch.flight?.outcome;
    if (joined !== undefined) {
      return joined;
    }
    for (;;) {
      const delivery = await this.#options.load(key);
      const known = outcomeOf(delivery, clock);
      if (delivery === undefined || known !== undefined) {
        return known ?? { kind: "moved" };
      }
      watch.flight = flights.join(key, delivery.cycle);
      const leaseMs = (delivery.leaseUntil?.getTime() ?? 0) - clock.now();
      if (watch.flight === undefined && leaseMs > 0) {
        await wait(Math.min(LEASE_POLL_MS, leaseMs + 1));
        continue;
      }
      const outcome = await (watch.flight?.outcome ?? this.#attempt(watch, delivery));
      if (outcome !== undefined) {
        return outcome;
      }
    }
  }

  /** What becomes of a delivery to an endpoint that is not ACTIVE, or of a tenant that is held; undefined: it is sent. */
  async #hinder(
    key: AttemptKey,
    { endpointState: state, disabledReason, heldAt, verifyingSince }: LoadedDelivery,
    plan: AttemptPlan,
  ): Promise<MemberOutcome | undefined> {
    const { clock, defer, park } = this.#options;
    const nowMs = clock.now();
    if (heldAt !== null) {
      return { kind: "postponed", dueMs: nowMs + pauseMs(nowMs - heldAt.getTime(), HELD_PAUSE_MIN_MS) };
    }
    const step = stepWhenDue({ state, disabledReason }, verifyingSince !== null, plan.attempt);
    if (step === "dead-letter" || step === "cancel") {
      await park(key, step === "cancel" ? GONE : DISABLED, plan);
      return { kind: step === "cancel" ? "moved" : "dead" };
    }
    if (step === "wait" && verifyingSince !== null) {
      const dueMs = nowMs + pauseMs(nowMs - verifyingSince.getTime(), VERIFYING_PAUSE_MIN_MS);
      await defer(key, dueMs);
      return { kind: "postponed", dueMs };
    }
    return undefined;
  }

  /** Nobody has attempted it, or whoever did is gone. Undefined: somebody's outcome came first and is in the row. */
  async #attempt(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { clock, flights, health, slots } = this.#options;
    const { key, plan, hurry } = watch;
    const { endpointId, endpointState, heldAt } = delivery;
    if (isErased(delivery)) {
      await this.#options.park(key, ERASED, plan);
      return { kind: "moved" };
    }
    if (heldAt !== null || endpointState !== "ACTIVE") {
      const hindered = await this.#hinder(key, delivery, plan);
      if (hindered !== undefined) {
        return hindered;
      }
    }
    if (hurry) {
      watch.flight = watch.left ? undefined : flights.launch(key, delivery, plan);
      return (await watch.flight?.outcome) ?? { kind: "unsettled" };
    }
    const paceMs = watch.paceMs(endpointId);
    if (paceMs > PACE_WAIT_MAX_MS) {
      return { kind: "postponed", dueMs: clock.now() + paceMs };
    }
    if (paceMs > 0) {
      await this.#options.wait(paceMs);
    }
    const postponeMs = await slots.acquire(endpointId, health.latencyMs(endpointId), clock.now());
    if (postponeMs > 0) {
      return { kind: "postponed", dueMs: clock.now() + postponeMs };
    }
    try {
      // While it waited for a slot, another run of the same attempt may have had one.
      watch.flight = flights.join(key, delivery.cycle) ?? flights.launch(key, delivery, plan);
      return await watch.flight.outcome;
    } finally {
      slots.release(endpointId);
    }
  }
}

/** Whether there is nothing to send, or no key to open it with. */
function isErased({ data, content, wrappedDataKey }: LoadedDelivery): boolean {
  return (data === null && content === null) || wrappedDataKey === "";
}

/**
 * Those that failed or were postponed together, and differ in when they fall due by what their requests took, stay
 * together: an activity of its own for each would cost Temporal more than the attempt.
 */
function aligned(outcomes: readonly MemberOutcome[]): readonly MemberOutcome[] {
  const latestMs = { failed: 0, postponed: 0 };
  for (const outcome of outcomes) {
    if ("dueMs" in outcome) {
      latestMs[outcome.kind] = Math.max(latestMs[outcome.kind], outcome.dueMs);
    }
  }
  return outcomes.map((outcome) =>
    "dueMs" in outcome && latestMs[outcome.kind] - outcome.dueMs <= ALIGN_MS
      ? { kind: outcome.kind, dueMs: latestMs[outcome.kind] }
      : outcome,
  );
}

/** When to look again at a delivery that waits for something other than its receiver: seldom, if that takes long. */
function pauseMs(forMs: number, minimumMs: number): number {
  return Math.min(Math.max(forMs / 2, minimumMs), PAUSE_MAX_MS);
}

function attemptKey({ carrier, plan }: AttemptRequest, { id, epoch }: Member): AttemptKey {
  return { deliveryId: id, epoch, carrier, attempt: plan.attempt };
}

/** The plan with its anchor: the first attempt sets it, an attempt that an outage made late moves it. */
function anchored(plan: AttemptPlan, startedAtMs: number): AttemptPlan {
  const { offsetsMs, attempt, dueMs } = plan;
  const shiftMs = dueMs === null ? 0 : shiftForLateness(offsetsMs, attempt, startedAtMs - dueMs);
  return { ...plan, anchorMs: (plan.anchorMs ?? startedAtMs) + shiftMs };
}

/** The outcome that an earlier run wrote, or that the delivery's state dictates; undefined: to be attempted. */
function outcomeOf(delivery: LoadedDelivery | undefined, clock: Clock): MemberOutcome | undefined {
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
  return attempted ? { kind: "failed", dueMs: delivery.nextAttemptAt?.getTime() ?? clock.now() } : undefined;
}
