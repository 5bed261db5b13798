/**
 * Makes each attempt once (architecture 3). It does not repeat an attempt that has an outcome. It joins a request of
 * this process, and waits for the lease of another process's request to expire. Repeated and concurrent calls for one
 * attempt are safe.
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
import type { Reservation } from "../../domain/reservation.ts";
import { type ContentMemory, MEMORY_PAUSE_MS } from "../sending/content-memory.ts";
import type { EndpointHealth } from "../pacing/endpoint-health.ts";
import {
  type RateLimitQueues,
  FIRST_PASS_WAIT_MAX_MS,
  RATE_LIMIT_WAIT_MAX_MS,
  nextChecks,
} from "../pacing/rate-limit-queues.ts";
import { type EndpointPace, PACE_WAIT_MAX_MS } from "../pacing/endpoint-pace.ts";
import type { EndpointSlots } from "../pacing/endpoint-slots.ts";
import { attemptName, type InFlightRequest, type InFlightRequests, LEASE_MS } from "./in-flight-requests.ts";
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
import { RunningWork } from "./running-work.ts";

/** How long a first attempt waits for its response. `settle` covers the rest. */
const FIRST_WAIT_MS = 1_000;
const LEASE_POLL_MS = 500;
/** The reconciler notices the release of a held tenant far sooner. */
const HELD_PAUSE_MIN_MS = 30_000;
/** Most endpoints acknowledge their ping immediately. */
const VERIFYING_PAUSE_MIN_MS = 5_000;

export interface AttemptRun {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** In the order of the members. */
  readonly outcomes: readonly MemberOutcome[];
}

export interface AttemptServiceOptions {
  /** Id of this worker in claims. */
  readonly worker: string;
  /** Takes over the claim of a first attempt. Returns false if its carrier has lost the delivery. */
  readonly adopt: (key: AttemptKey) => Promise<boolean>;
  readonly load: (key: AttemptKey) => Promise<LoadedDelivery | undefined>;
  /** Takes a delivery that cannot be sent out of the schedule. */
  readonly park: (key: AttemptKey, where: Parking, plan: AttemptPlan) => Promise<void>;
  /** Defers a delivery whose endpoint is being verified, until Unix milliseconds. */
  readonly defer: (key: AttemptKey, dueMs: number) => Promise<void>;
  /** Defers deliveries that wait for their rate-limit reservation. */
  readonly deferForReservations: (
    waiting: readonly { readonly key: AttemptKey; readonly until: Date }[],
  ) => Promise<void>;
  readonly inFlight: InFlightRequests;
  readonly health: EndpointHealth;
  readonly slots: EndpointSlots;
  readonly contentMemory: ContentMemory;
  readonly pace: EndpointPace;
  readonly rateLimitQueues: RateLimitQueues;
  readonly recorder: Recorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly wait: (ms: number) => Promise<void>;
}

/** Final state and reason of a delivery that cannot be sent. */
type Parking = Pick<ParkedDelivery, "to" | "reason">;

const ERASED: Parking = { to: "CANCELLED", reason: "content_erased" };
const GONE: Parking = { to: "CANCELLED", reason: null };
const DISABLED: Parking = { to: "DEAD_LETTERED", reason: "endpoint_disabled" };

/** A member during a run. */
interface Watch {
  readonly key: AttemptKey;
  readonly plan: AttemptPlan;
  /** Whether the caller leaves after a second and accepts only short waits. */
  readonly firstPass: boolean;
  /** Returns the run's wait before it sends to an endpoint, in milliseconds. */
  readonly paceMs: (endpointId: string) => number;
  /** Reservation in the endpoint's rate-limit queue. */
  readonly reservation: Reservation | undefined;
  request: InFlightRequest | undefined;
  /** Whether the caller has left. If so, nothing more is sent for it. */
  left: boolean;
}

export class AttemptService {
  readonly #options: AttemptServiceOptions;
  readonly #running = new RunningWork<AttemptRequest>();
  #firstUnderWay = 0;

  constructor(options: AttemptServiceOptions) {
    this.#options = options;
  }

  /** Number of members whose first attempt is in progress. The dispatcher paces itself by it. */
  get firstUnderWay(): number {
    return this.#firstUnderWay;
  }

  /**
   * Makes the attempts of a request.
   *
   * @throws WorkerEndsError after {@link stopAccepting}
   * @throws if the database cannot be read; no attempt was sent twice then
   */
  async run(request: AttemptRequest): Promise<AttemptRun> {
    const run = async () => await (request.firstPass ? this.#runFirst(request) : this.#run(request));
    return await this.#running.track(request, run);
  }

  /** Rejects further requests. @returns the deliveries in progress, which still finish here */
  stopAccepting(): string[] {
    const running = this.#running.close().flatMap(({ members }) => members.map(({ id }) => id));
    return [...running, ...this.#options.inFlight.deliveries()];
  }

  async #runFirst(request: AttemptRequest): Promise<AttemptRun> {
    // A member that joins a running request adds no load.
    const fresh = request.members.filter(
      (member) => this.#options.inFlight.joinOwn(attemptKey(request, member)) === undefined,
    ).length;
    this.#firstUnderWay += fresh;
    try {
      return await this.#run(request);
    } finally {
      this.#firstUnderWay -= fresh;
    }
  }

  /**
   * Starts the first attempts of a carrier whose workflow was just started and has its first task in this process.
   * The workflow's activity joins them, and handles any failure.
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
    const { members, plan, firstPass } = request;
    const { clock, wait } = this.#options;
    const startedAtMs = clock.now();
    // If the members waited for their first attempt, their cycle starts now.
    const waited = plan.attempt === 1 && request.reservations !== undefined;
    const shifted = anchored(waited ? { ...plan, anchorMs: null } : plan, startedAtMs);
    const deadline = wait(FIRST_WAIT_MS);
    const paceMs = this.#pacer(`${members[0]?.id}/${plan.attempt}`, members.length);
    const outcomes = await Promise.all(
      members.map(async (member, index) => {
        const key = attemptKey(request, member);
        const reservation = request.reservations?.get(index);
        const watch = { key, plan: shifted, firstPass, paceMs, reservation, request: undefined, left: false };
        return await this.#watch(watch, deadline);
      }),
    );
    const endedAtMs = clock.now();
    return {
      startedAtMs,
      endedAtMs,
      outcomes: await this.#scheduleChecks(request, aligned(outcomes), endedAtMs),
    };
  }

  /** Sets when reservations are checked again. Defers the deliveries, so that they are not overdue until then. */
  async #scheduleChecks(
    request: AttemptRequest,
    outcomes: readonly MemberOutcome[],
    nowMs: number,
  ): Promise<readonly MemberOutcome[]> {
    if (!outcomes.some((outcome) => outcome.kind === "postponed" && outcome.reservation !== undefined)) {
      return outcomes;
    }
    const reservations = outcomes.map((outcome) =>
      outcome.kind === "postponed" ? outcome.reservation : undefined,
    );
    const checks = nextChecks(reservations, nowMs);
    const waiting = reservations.flatMap((reservation, index) => {
      const member = request.members[index];
      return reservation === undefined ||
        member === undefined ||
        reservation === request.reservations?.get(index)
        ? []
        : [{ key: attemptKey(request, member), until: new Date(reservation.atMs) }];
    });
    if (waiting.length > 0) {
      await this.#options.deferForReservations(waiting);
    }
    return outcomes.map((outcome, index) =>
      outcome.kind === "postponed" ? { ...outcome, dueMs: checks[index] ?? outcome.dueMs } : outcome,
    );
  }

  /** Resolves when no request is in progress and every outcome is written. */
  async drain(): Promise<void> {
    await this.#options.inFlight.drain();
    await this.#options.recorder.drain();
  }

  /**
   * Reserves one start time per failing endpoint for the whole run, so that members with equal waits stay together.
   */
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

  /** Leases a request that outlives the first second. A first pass returns then. */
  async #watch(watch: Watch, deadline: Promise<void>): Promise<MemberOutcome> {
    const outcome = this.#settle(watch);
    const early = await Promise.race([outcome, deadline.then(() => undefined)]);
    if (early !== undefined) {
      return early;
    }
    if (watch.firstPass) {
      watch.left = true;
      outcome.catch(() => undefined);
    }
    const { request } = watch;
    if (request !== undefined) {
      const { clock, health } = this.#options;
      // Count only the request's own time. A delay before sending is ours, not the receiver's.
      if (clock.now() - request.startedAtMs >= FIRST_WAIT_MS) {
        health.noteUnanswered(request.endpointId, clock.now());
      }
      await request.lease();
    }
    return watch.firstPass ? { kind: "unsettled" } : await outcome;
  }

  /** Takes one member to a durable outcome. */
  async #settle(watch: Watch): Promise<MemberOutcome> {
    const { clock, inFlight, wait } = this.#options;
    const { key } = watch;
    watch.request = inFlight.joinOwn(key);
    const joined = await watch.request?.outcome;
    if (joined !== undefined) {
      return joined;
    }
    for (;;) {
      const delivery = await this.#options.load(key);
      const known = outcomeOf(delivery, clock);
      if (delivery === undefined || known !== undefined) {
        return known ?? { kind: "moved" };
      }
      watch.request = inFlight.join(key, delivery.cycle);
      const leaseMs = leftOf(delivery.leaseUntil, clock.now());
      if (watch.request === undefined && leaseMs > 0) {
        await wait(Math.min(LEASE_POLL_MS, leaseMs + 1));
        continue;
      }
      const outcome = await (watch.request?.outcome ?? this.#begin(watch, delivery));
      if (outcome !== undefined) {
        return outcome;
      }
    }
  }

  /** Adopts the claim first. When a worker ends, its claims are handed back, even during a request. */
  async #begin(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { inFlight, worker, adopt } = this.#options;
    if (delivery.state === "QUEUED" && delivery.claimedBy !== worker) {
      const adopted = await adopt(watch.key);
      watch.request = inFlight.join(watch.key, delivery.cycle);
      if (!adopted || watch.request !== undefined) {
        return await watch.request?.outcome;
      }
    }
    return await this.#attempt(watch, delivery);
  }

  /**
   * Returns the outcome if the endpoint is not ACTIVE or the tenant is held; undefined if the attempt may be sent.
   */
  async #blockedOutcome(
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

  /** Makes an attempt that nobody else is making. Returns undefined if the row has to be read again. */
  async #attempt(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { clock } = this.#options;
    const { key, plan, firstPass } = watch;
    const { endpointId, endpointState, heldAt } = delivery;
    if (isErased(delivery)) {
      await this.#options.park(key, ERASED, plan);
      return { kind: "moved" };
    }
    if (heldAt !== null || endpointState !== "ACTIVE") {
      const blocked = await this.#blockedOutcome(key, delivery, plan);
      if (blocked !== undefined) {
        return blocked;
      }
    }
    if (firstPass) {
      return await this.#sendFirst(watch, delivery);
    }
    const paceMs = watch.paceMs(endpointId);
    if (paceMs > PACE_WAIT_MAX_MS) {
      return { kind: "postponed", dueMs: clock.now() + paceMs };
    }
    if (paceMs > 0) {
      await this.#options.wait(paceMs);
    }
    const held = delivery.rateLimit === null ? undefined : await this.#awaitReservation(watch, delivery);
    return held ?? (await this.#sendInSlot(watch, delivery));
  }

  async #sendFirst(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome> {
    if (delivery.rateLimit === null) {
      return (await this.#send(watch, delivery)) ?? { kind: "unsettled" };
    }
    const held = await this.#awaitReservation(watch, delivery);
    return held ?? (await this.#send(watch, delivery)) ?? { kind: "unsettled" };
  }

  /** Sends within a slot. A healthy endpoint with a rate limit needs none. */
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
    const { clock, health, contentMemory } = this.#options;
    const slow = health.isSlow(delivery.endpointId, clock.now());
    const sent = await contentMemory.during(
      delivery,
      slow,
      async (whole) => await this.#sendOnce(watch, whole),
    );
    return sent === "full" ? { kind: "postponed", dueMs: clock.now() + MEMORY_PAUSE_MS } : sent;
  }

  /** Joins the request of another run of this attempt, or sends. Returns undefined if the caller has left. */
  async #sendOnce(watch: Watch, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { inFlight } = this.#options;
    if (watch.left) {
      return undefined;
    }
    watch.request =
      inFlight.join(watch.key, delivery.cycle) ?? inFlight.send(watch.key, delivery, watch.plan);
    return await watch.request.outcome;
  }

  /** Waits for the rate limit. Returns a postponed outcome if the wait would be too long. */
  async #awaitReservation(
    { key, firstPass, reservation: kept }: Watch,
    { endpointId, rateLimit, cycle }: LoadedDelivery,
  ): Promise<MemberOutcome | undefined> {
    if (rateLimit === null) {
      return undefined;
    }
    const { clock, inFlight, rateLimitQueues, wait } = this.#options;
    const reservation = await rateLimitQueues.reserve({
      endpointId,
      rateLimit,
      attempt: attemptName(key),
      kept,
    });
    const waitMs = reservation.atMs - clock.now();
    if (waitMs > (firstPass ? FIRST_PASS_WAIT_MAX_MS : RATE_LIMIT_WAIT_MAX_MS)) {
      return { kind: "postponed", dueMs: reservation.atMs, reservation };
    }
    if (waitMs > 0) {
      await wait(waitMs);
    }
    const gateMs =
      inFlight.join(key, cycle) === undefined ? rateLimitQueues.spacingMs(endpointId, rateLimit) : 0;
    if (gateMs > 0) {
      await wait(gateMs);
    }
    return undefined;
  }
}

/**
 * Returns the rest of a lease, in milliseconds. A lease beyond the possible maximum comes from a wrong clock and
 * counts as 0.
 */
function leftOf(leaseUntil: Date | null, nowMs: number): number {
  const leftMs = (leaseUntil?.getTime() ?? 0) - nowMs;
  return leftMs > LEASE_MS + CLOCK_SKEW_MAX_MS ? 0 : leftMs;
}
