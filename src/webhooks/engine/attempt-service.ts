/**
 * Makes each attempt once. It does not repeat an attempt that has an outcome. It joins a request of
 * this process, and waits for the lease of another process's request to expire. Repeated and concurrent calls for one
 * attempt are safe.
 */
import { type Batcher, createBatcher } from "#database/batcher.ts";
import { CLOCK_SKEW_MAX_MS } from "#database/database-clock.ts";
import type { Pool } from "#database/pool.ts";
import {
  type AttemptKey,
  deferForReservations,
  type LoadedDelivery,
  loadForAttempt,
} from "#database/repositories/webhooks/attempts.ts";
import { adoptClaims } from "#database/repositories/webhooks/claims.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import type { Reservation } from "#domain/reservation.ts";
import { tracer } from "#observability/tracing.ts";
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
import { blockedOutcome } from "./blocked-outcome.ts";
import { attemptName, type InFlightRequest, type InFlightRequests, LEASE_MS } from "./in-flight-requests.ts";
import {
  aligned,
  anchored,
  attemptKey,
  type AttemptPlan,
  type AttemptRequest,
  type MemberOutcome,
  outcomeOf,
} from "./member-outcome.ts";
import type { Recorder } from "./recorder.ts";
import { RunningWork } from "./running-work.ts";

/** How long a first attempt waits for its response. `settle` covers the rest. */
const FIRST_WAIT_MS = 1_000;
const LEASE_POLL_MS = 500;
const STATEMENT_ITEMS_MAX = 256;
const STATEMENTS_IN_FLIGHT_MAX = 2;

export interface AttemptRun {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** In the order of the members. */
  readonly outcomes: readonly MemberOutcome[];
}

export interface AttemptServiceOptions {
  /** Id of this worker in claims. */
  readonly worker: string;
  readonly pool: Pool;
  readonly inFlight: InFlightRequests;
  readonly health: EndpointHealth;
  readonly slots: EndpointSlots;
  readonly contentMemory: ContentMemory;
  readonly pace: EndpointPace;
  readonly rateLimitQueues: RateLimitQueues;
  readonly recorder: Recorder;
  readonly clock: Clock;
  readonly timers: Timers;
}

/** A member during a run. */
interface MemberRun {
  readonly key: AttemptKey;
  readonly plan: AttemptPlan;
  /** Whether the caller leaves after a second and accepts only short waits. */
  readonly firstPass: boolean;
  /** Returns the run's wait before it sends to an endpoint, in milliseconds. */
  readonly paceMs: (endpointId: string) => number;
  /** Reservation in the endpoint's rate-limit queue. */
  readonly reservation: Reservation | undefined;
  /** The delivery, if the claim has read it. Used once: after a wait it is read again. */
  loaded: LoadedDelivery | undefined;
  request: InFlightRequest | undefined;
  /** Whether the caller has left. If so, nothing more is sent for it. */
  left: boolean;
}

export class AttemptService {
  readonly #options: AttemptServiceOptions;
  readonly #loads: Batcher<AttemptKey, LoadedDelivery | undefined>;
  readonly #adoptions: Batcher<AttemptKey, boolean>;
  readonly #running = new RunningWork<AttemptRequest>();
  #firstUnderWay = 0;

  constructor(options: AttemptServiceOptions) {
    const { pool, worker, timers } = options;
    const limits = { timers, maxItems: STATEMENT_ITEMS_MAX, maxInFlight: STATEMENTS_IN_FLIGHT_MAX };
    this.#options = options;
    this.#loads = createBatcher({
      ...limits,
      flush: async (keys) => await loadForAttempt(pool, keys, tracer() !== undefined),
    });
    this.#adoptions = createBatcher({
      ...limits,
      flush: async (keys) => await adoptClaims(pool, keys, worker),
    });
  }

  /** Number of first attempts that are in progress or wait for memory. The dispatcher paces itself by it. */
  get firstUnderWay(): number {
    return this.#firstUnderWay + this.#options.contentMemory.waitingCount;
  }

  /**
   * Makes the attempts of a request. All attempts begin here. First attempts are requested twice: at their claim, and
   * by the workflow's activity. The second call joins the requests of the first.
   *
   * @param loaded the deliveries as their claim has read them, in the order of the members
   * @throws WorkerEndsError after {@link stopAccepting}
   * @throws if the database cannot be read; no attempt was sent twice then
   */
  async run(
    request: AttemptRequest,
    loaded: readonly (LoadedDelivery | undefined)[] = [],
  ): Promise<AttemptRun> {
    return await this.#running.track(request, async () => {
      const { clock, timers } = this.#options;
      const added = this.#countAdded(request);
      this.#firstUnderWay += added;
      try {
        const startedAtMs = clock.now();
        const members = this.#memberRuns(request, startedAtMs, loaded);
        const deadline = timers.sleep(FIRST_WAIT_MS);
        const outcomes = aligned(
          await Promise.all(members.map(async (member) => await this.#runMember(member, deadline))),
        );
        const endedAtMs = clock.now();
        return {
          startedAtMs: request.firstPass ? firstStart(members, startedAtMs) : startedAtMs,
          endedAtMs,
          outcomes: await this.#scheduleChecks(request, outcomes, endedAtMs),
        };
      } finally {
        this.#firstUnderWay -= added;
      }
    });
  }

  /** Rejects further requests. @returns the deliveries in progress, which still finish here */
  stopAccepting(): string[] {
    const running = this.#running.close().flatMap(({ members }) => members.map(({ id }) => id));
    return [...running, ...this.#options.inFlight.deliveries()];
  }

  /** Resolves when no request is in progress and every outcome is written. */
  async drain(): Promise<void> {
    await this.#options.inFlight.drain();
    await this.#options.recorder.drain();
  }

  /** Counts the first attempts that a request adds. A member that joins a running request adds no load. */
  #countAdded(request: AttemptRequest): number {
    const { inFlight } = this.#options;
    return request.firstPass
      ? request.members.filter((member) => inFlight.joinOwn(attemptKey(request, member)) === undefined).length
      : 0;
  }

  #memberRuns(
    request: AttemptRequest,
    startedAtMs: number,
    loaded: readonly (LoadedDelivery | undefined)[],
  ): MemberRun[] {
    const { members, firstPass, reservations } = request;
    // If the members waited for their first attempt, their cycle starts now.
    const waited = request.plan.attempt === 1 && reservations !== undefined;
    const plan = anchored(waited ? { ...request.plan, anchorMs: null } : request.plan, startedAtMs);
    const paceMs = this.#pacer(`${members[0]?.id}/${plan.attempt}`, members.length);
    return members.map((member, index) => ({
      key: attemptKey(request, member),
      plan,
      firstPass,
      paceMs,
      reservation: reservations?.get(index),
      loaded: loaded[index],
      request: undefined,
      left: false,
    }));
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
  async #runMember(member: MemberRun, deadline: Promise<void>): Promise<MemberOutcome> {
    const outcome = this.#settle(member);
    const early = await Promise.race([outcome, deadline.then(() => undefined)]);
    if (early !== undefined) {
      return early;
    }
    if (member.firstPass) {
      member.left = true;
      outcome.catch(() => undefined);
    }
    const { request } = member;
    if (request !== undefined) {
      const { clock, health } = this.#options;
      // Count only the request's own time. A delay before sending is ours, not the receiver's.
      if (clock.now() - request.startedAtMs >= FIRST_WAIT_MS) {
        health.noteUnanswered(request.endpointId, clock.now());
      }
      await request.lease();
    }
    return member.firstPass ? { kind: "unsettled" } : await outcome;
  }

  /** Takes one member to a durable outcome: joins, loads, takes over, checks, waits for its turn and sends. */
  async #settle(member: MemberRun): Promise<MemberOutcome> {
    const { clock, inFlight } = this.#options;
    member.request = inFlight.joinOwn(member.key);
    const joined = await member.request?.outcome;
    if (joined !== undefined) {
      return joined;
    }
    for (;;) {
      const delivery = member.loaded ?? (await this.#loads.add(member.key));
      member.loaded = undefined;
      const known = outcomeOf(delivery, clock);
      if (delivery === undefined || known !== undefined) {
        return known ?? { kind: "moved" };
      }
      const outcome = (await this.#takeOver(member, delivery))
        ? ((await blockedOutcome(this.#options, member, delivery)) ??
          (await this.#awaitTurn(member, delivery)) ??
          (await this.#send(member, delivery)))
        : await member.request?.outcome;
      if (outcome !== undefined) {
        return outcome;
      }
    }
  }

  /**
   * Takes over a delivery that nobody else is sending. Returns false if this process is sending it, which the member
   * then joins, or if the row has to be read again.
   */
  async #takeOver(member: MemberRun, delivery: LoadedDelivery): Promise<boolean> {
    const { clock, inFlight, timers, worker } = this.#options;
    const { key } = member;
    member.request = inFlight.join(key, delivery.cycle);
    if (member.request !== undefined) {
      return false;
    }
    const leaseMs = leftOf(delivery.lease_until, clock.now());
    if (leaseMs > 0) {
      await timers.sleep(Math.min(LEASE_POLL_MS, leaseMs + 1));
      return false;
    }
    if (delivery.state !== "QUEUED" || delivery.claimed_by === worker) {
      return true;
    }
    // Before sending: when a worker ends, its claims are handed back, even during a request.
    const adopted = await this.#adoptions.add(key);
    member.request = inFlight.join(key, delivery.cycle);
    return adopted && member.request === undefined;
  }

  /**
   * Waits for the pace of a failing endpoint, then for the rate limit. Returns a postponed outcome if either wait
   * would be too long.
   */
  async #awaitTurn(
    { key, firstPass, paceMs: paceOf, reservation: kept }: MemberRun,
    { endpoint_id: endpointId, rate_limit: rateLimit, cycle }: LoadedDelivery,
  ): Promise<MemberOutcome | undefined> {
    const { clock, inFlight, rateLimitQueues, timers } = this.#options;
    const paceMs = firstPass ? 0 : paceOf(endpointId);
    if (paceMs > PACE_WAIT_MAX_MS) {
      return { kind: "postponed", dueMs: clock.now() + paceMs };
    }
    if (paceMs > 0) {
      await timers.sleep(paceMs);
    }
    if (rateLimit === null) {
      return undefined;
    }
    const attempt = attemptName(key);
    const reservation = await rateLimitQueues.reserve({ endpointId, rateLimit, attempt, kept });
    const waitMs = reservation.atMs - clock.now();
    if (waitMs > (firstPass ? FIRST_PASS_WAIT_MAX_MS : RATE_LIMIT_WAIT_MAX_MS)) {
      return { kind: "postponed", dueMs: reservation.atMs, reservation };
    }
    if (waitMs > 0) {
      await timers.sleep(waitMs);
    }
    const spacingMs =
      inFlight.join(key, cycle) === undefined ? rateLimitQueues.spacingMs(endpointId, rateLimit) : 0;
    if (spacingMs > 0) {
      await timers.sleep(spacingMs);
    }
    return undefined;
  }

  /**
   * Sends within a slot of the endpoint, once there is memory for the content. A first pass needs no slot, nor does a
   * healthy endpoint with a rate limit. Joins the request of another run of this attempt. Returns undefined if the row
   * has to be read again.
   */
  async #send(member: MemberRun, delivery: LoadedDelivery): Promise<MemberOutcome | undefined> {
    const { clock, contentMemory, health, inFlight, slots } = this.#options;
    const { key, firstPass, plan } = member;
    const { endpoint_id: endpointId, rate_limit: rateLimit } = delivery;
    const inSlot = !firstPass && (rateLimit === null || health.isSlow(endpointId, clock.now()));
    if (inSlot) {
      const latencyMs = health.latencyMs(endpointId);
      const postponeMs = await slots.acquire(endpointId, attemptName(key), latencyMs, clock.now());
      if (postponeMs > 0) {
        return { kind: "postponed", dueMs: clock.now() + postponeMs, forSlot: true };
      }
    }
    try {
      const slow = health.isSlow(endpointId, clock.now());
      const sent = await contentMemory.during(delivery, slow, async (whole) => {
        if (member.left) {
          return undefined;
        }
        member.request = inFlight.join(key, whole.cycle) ?? inFlight.send(key, whole, plan);
        return await member.request.outcome;
      });
      if (sent === "full") {
        return { kind: "postponed", dueMs: clock.now() + MEMORY_PAUSE_MS };
      }
      return firstPass ? (sent ?? { kind: "unsettled" }) : sent;
    } finally {
      if (inSlot) {
        slots.release(endpointId);
      }
    }
  }

  /** Sets when reservations are checked again. Defers the deliveries, so that they are not overdue until then. */
  async #scheduleChecks(
    request: AttemptRequest,
    outcomes: readonly MemberOutcome[],
    nowMs: number,
  ): Promise<readonly MemberOutcome[]> {
    const reservations = outcomes.map((outcome) =>
      outcome.kind === "postponed" ? outcome.reservation : undefined,
    );
    if (reservations.every((reservation) => reservation === undefined)) {
      return outcomes;
    }
    const waiting = request.members.flatMap((member, index) => {
      const reservation = reservations[index];
      return reservation === undefined || reservation === request.reservations?.get(index)
        ? []
        : [{ key: attemptKey(request, member), until: new Date(reservation.atMs) }];
    });
    if (waiting.length > 0) {
      await deferForReservations(this.#options.pool, waiting);
    }
    const checks = nextChecks(reservations, nowMs);
    return outcomes.map((outcome, index) =>
      outcome.kind === "postponed" ? { ...outcome, dueMs: checks[index] ?? outcome.dueMs } : outcome,
    );
  }
}

/** Returns when the first request of a run left. It may have left at the claim, before the run. */
function firstStart(members: readonly MemberRun[], startedAtMs: number): number {
  return members.reduce((first, { request }) => Math.min(first, request?.startedAtMs ?? first), startedAtMs);
}

/**
 * Returns the rest of a lease, in milliseconds. A lease beyond the possible maximum comes from a wrong clock and
 * counts as 0.
 */
function leftOf(leaseUntil: Date | null, nowMs: number): number {
  const leftMs = (leaseUntil?.getTime() ?? 0) - nowMs;
  return leftMs > LEASE_MS + CLOCK_SKEW_MAX_MS ? 0 : leftMs;
}
