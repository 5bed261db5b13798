/**
 * Carries out attempts, once each (architecture 3): what has an outcome is not sent again, what is under way here is
 * joined, what is under way elsewhere is waited for until its lease has passed. May be called any number of times
 * for the same attempt, also beside itself.
 */
import type { Logger } from "pino";
import { CLOCK_SKEW_MAX_MS } from "../../database/database-clock.ts";
import type {
  AttemptKey,
  LoadedDelivery,
  ParkedDelivery,
} from "../../database/repositories/webhooks/attempts.ts";
import type { Clock } from "../../domain/clock.ts";
import { stepWhenDue } from "../../domain/endpoint-state.ts";
import type { Place } from "../../domain/place.ts";
import { type ContentRoom, ROOM_PAUSE_MS } from "../sending/content-room.ts";
import type { EndpointHealth } from "../pacing/endpoint-health.ts";
import {
  type EndpointLines,
  LINE_HURRY_MAX_MS,
  LINE_WAIT_MAX_MS,
  nextLooks,
} from "../pacing/endpoint-lines.ts";
import { type EndpointPace, PACE_WAIT_MAX_MS } from "../pacing/endpoint-pace.ts";
import type { EndpointSlots } from "../pacing/endpoint-slots.ts";
import { attemptName, type Flight, type Flights, LEASE_MS } from "./flights.ts";
import {
  aligned,
  anchored,
  attemptKey,
  type AttemptPlan,
  type AttemptRequest,
  isErased,
  type MemberOutcome,
  outcomeOf,
  pauseMs,
} from "./member-outcome.ts";
import type { Recorder } from "./recorder.ts";
import { Taken } from "./taken.ts";

/** First attempts are waited for so long; the rest is `settle`'s. */
const FIRST_WAIT_MS = 1_000;
const LEASE_POLL_MS = 500;
/** The release of a held tenant is noticed by the reconciliation, far sooner. */
const HELD_PAUSE_MIN_MS = 30_000;
/** Most endpoints acknowledge their ping at once. */
const VERIFYING_PAUSE_MIN_MS = 5_000;

export interface AttemptRun {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** In the order of the members. */
  readonly outcomes: readonly MemberOutcome[];
}

export interface AttemptServiceOptions {
  /** This worker's id, as claims have it. */
  readonly worker: string;
  /** Takes over the claim of a first attempt; false: its carrier has lost the delivery. */
  readonly adopt: (key: AttemptKey) => Promise<boolean>;
  readonly load: (key: AttemptKey) => Promise<LoadedDelivery | undefined>;
  /** Takes a delivery that cannot be sent out of the schedule. */
  readonly park: (key: AttemptKey, where: Parking, plan: AttemptPlan) => Promise<void>;
  /** Puts off a delivery whose endpoint is being verified; Unix milliseconds. */
  readonly defer: (key: AttemptKey, dueMs: number) => Promise<void>;
  /** Puts off deliveries that wait for their place at an endpoint with a rate limit. */
  readonly deferForPlaces: (
    waiting: readonly { readonly key: AttemptKey; readonly until: Date }[],
  ) => Promise<void>;
  readonly flights: Flights;
  readonly health: EndpointHealth;
  readonly slots: EndpointSlots;
  readonly room: ContentRoom;
  readonly pace: EndpointPace;
  readonly lines: EndpointLines;
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
  /** Where it stands in the line of an endpoint with a rate limit, if it does. */
  readonly place: Place | undefined;
  flight: Flight | undefined;
  /** The caller has left: what has not been sent by now is not sent on its behalf. */
  left: boolean;
}

export class AttemptService {
  readonly #options: AttemptServiceOptions;
  readonly #taken = new Taken<AttemptRequest>();
  #firstUnderWay = 0;

  constructor(options: AttemptServiceOptions) {
    this.#options = options;
  }

  /** Members of first attempts under way: what the dispatcher measures its pace by. */
  get firstUnderWay(): number {
    return this.#firstUnderWay;
  }

  /**
   * @throws WorkerEndsError after {@link endTaking}
   * @throws when the database cannot be read; nothing was sent twice then
   */
  async run(request: AttemptRequest): Promise<AttemptRun> {
    const run = async () => await (request.hurry ? this.#runFirst(request) : this.#run(request));
    return await this.#taken.during(request, run);
  }

  /** Takes no further request. @returns the deliveries of those under way, which end here */
  endTaking(): string[] {
    const running = this.#taken.end().flatMap(({ members }) => members.map(({ id }) => id));
    return [...running, ...this.#options.flights.deliveries()];
  }

  async #runFirst(request: AttemptRequest): Promise<AttemptRun> {
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
    // The cycle of who waited for its first attempt begins with that.
    const waited = plan.attempt === 1 && request.places !== undefined;
    const shifted = anchored(waited ? { ...plan, anchorMs: null } : plan, startedAtMs);
    const patience = wait(FIRST_WAIT_MS);
    const paceMs = this.#pacer(`${members[0]?.id}/${plan.attempt}`, members.length);
    const outcomes = await Promise.all(
      members.map(async (member, index) => {
        const key = attemptKey(request, member);
        const place = request.places?.get(index);
        const watch = { key, plan: shifted, hurry, paceMs, place, flight: undefined, left: false };
        return await this.#watch(watch, patience);
      }),
    );
    const endedAtMs = clock.now();
    return { startedAtMs, endedAtMs, outcomes: await this.#inLine(request, aligned(outcomes), endedAtMs) };
  }

  /** When those that wait for their places come again, and until when nobody misses them. */
  async #inLine(
    request: AttemptRequest,
    outcomes: readonly MemberOutcome[],
    nowMs: number,
  ): Promise<readonly MemberOutcome[]> {
    if (!outcomes.some((outcome) => outcome.kind === "postponed" && outcome.place !== undefined)) {
      return outcomes;
    }
    const places = outcomes.map((outcome) => (outcome.kind === "postponed" ? outcome.place : undefined));
    const looks = nextLooks(places, nowMs);
    const waiting = places.flatMap((place, index) => {
      const member = request.members[index];
      return place === undefined || member === undefined || place === request.places?.get(index)
        ? []
        : [{ key: attemptKey(request, member), until: new Date(place.atMs) }];
    });
    if (waiting.length > 0) {
      await this.#options.deferForPlaces(waiting);
    }
    return outcomes.map((outcome, index) =>
      outcome.kind === "postponed" ? { ...outcome, dueMs: looks[index] ?? outcome.dueMs } : outcome,
    );
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
      const leaseMs = leftOf(delivery.leaseUntil, clock.now());
      if (watch.flight === undefined && leaseMs > 0) {
        await wait(Math.min(LEASE_POLL_MS, leaseMs + 1));
        continue;
      }
      const outcome = await (watch.flight?.outcome ?? this.#begin(watch, delivery));
      if (outcome !== undefined) {
        return outcome;
      }
    }
  }

  /** Adopts the claim first: what another worker claimed is handed back when that one ends, also in mid-request. */
  async #begin(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { flights, worker, adopt } = this.#options;
    if (delivery.state === "QUEUED" && delivery.claimedBy !== worker) {
      const adopted = await adopt(watch.key);
      watch.flight = flights.join(watch.key, delivery.cycle);
      if (!adopted || watch.flight !== undefined) {
        return await watch.flight?.outcome;
      }
    }
    return await this.#attempt(watch, delivery);
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

  /** Nobody has attempted it, or whoever did is gone. Undefined: the row says what came between. */
  async #attempt(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { clock } = this.#options;
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
      return await this.#sendFirst(watch, delivery);
    }
    const paceMs = watch.paceMs(endpointId);
    if (paceMs > PACE_WAIT_MAX_MS) {
      return { kind: "postponed", dueMs: clock.now() + paceMs };
    }
    if (paceMs > 0) {
      await this.#options.wait(paceMs);
    }
    const held = delivery.rateLimit === null ? undefined : await this.#awaitPlace(watch, delivery);
    return held ?? (await this.#sendInSlot(watch, delivery));
  }

  async #sendFirst(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome> {
    if (delivery.rateLimit === null) {
      return (await this.#send(watch, delivery)) ?? { kind: "unsettled" };
    }
    const held = await this.#awaitPlace(watch, delivery);
    return held ?? (await this.#send(watch, delivery)) ?? { kind: "unsettled" };
  }

  /** What is sent to a healthy endpoint at the pace that its tenant has set needs no slot. */
  async #sendInSlot(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { clock, health, slots } = this.#options;
    const { endpointId, rateLimit } = delivery;
    if (rateLimit !== null && !health.isSlow(endpointId, clock.now())) {
      return await this.#send(watch, delivery);
    }
    const latencyMs = health.latencyMs(endpointId);
    const postponeMs = await slots.acquire(endpointId, attemptName(watch.key), latencyMs, clock.now());
    if (postponeMs > 0) {
      return { kind: "postponed", dueMs: clock.now() + postponeMs };
    }
    try {
      return await this.#send(watch, delivery);
    } finally {
      slots.release(endpointId);
    }
  }

  async #send(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { clock, health, room } = this.#options;
    const slow = health.isSlow(delivery.endpointId, clock.now());
    const sent = await room.during(delivery, slow, async (whole) => await this.#launch(watch, whole));
    return sent === "full" ? { kind: "postponed", dueMs: clock.now() + ROOM_PAUSE_MS } : sent;
  }

  /** While it waited, another run of the same attempt may have sent it. Undefined also when the caller has left. */
  async #launch(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { flights } = this.#options;
    if (watch.left) {
      return undefined;
    }
    watch.flight = flights.join(watch.key, delivery.cycle) ?? flights.launch(watch.key, delivery, watch.plan);
    return await watch.flight.outcome;
  }

  /** Until the endpoint's rate limit lets the attempt through; what it waits for where that takes longer than moments. */
  async #awaitPlace(
    { key, hurry, place: kept }: Watch,
    { endpointId, rateLimit, cycle }: LoadedDelivery,
  ): Promise<MemberOutcome | undefined> {
    if (rateLimit === null) {
      return undefined;
    }
    const { clock, flights, lines, wait } = this.#options;
    const place = await lines.place({ endpointId, rateLimit, attempt: attemptName(key), kept });
    const waitMs = place.atMs - clock.now();
    if (waitMs > (hurry ? LINE_HURRY_MAX_MS : LINE_WAIT_MAX_MS)) {
      return { kind: "postponed", dueMs: place.atMs, place };
    }
    if (waitMs > 0) {
      await wait(waitMs);
    }
    const gateMs = flights.join(key, cycle) === undefined ? lines.gate(endpointId, rateLimit) : 0;
    if (gateMs > 0) {
      await wait(gateMs);
    }
    return undefined;
  }
}

/** How long a lease lasts, milliseconds; one that ends later than any can was stamped by a wrong clock and is none. */
function leftOf(leaseUntil: Date | null, nowMs: number): number {
  const leftMs = (leaseUntil?.getTime() ?? 0) - nowMs;
  return leftMs > LEASE_MS + CLOCK_SKEW_MAX_MS ? 0 : leftMs;
}
