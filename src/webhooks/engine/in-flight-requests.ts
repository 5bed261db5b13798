/** Requests in progress in this process, each from the decision to send until its outcome is durable. */
import type { Logger } from "pino";
import type { AttemptKey, LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import type { Clock } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { answerOf } from "#domain/delivery.ts";
import { ATTEMPT_MAX, nextDueMs } from "#domain/retry-schedule.ts";
import { tracer } from "#observability/tracing.ts";
import { type TracedSpan, traceFields } from "#observability/tracer.ts";
import { endedWith, startAttempt } from "./attempt-span.ts";
import { countAttempt, countEnded, countInternalFailure } from "./delivery-metrics.ts";
import type { createGoneDisabler } from "../endpoints/disable-failing.ts";
import type { SentAttempt } from "../sending/delivery-sender.ts";
import { isOwnLack } from "../sending/http-sender.ts";
import type { EndpointFailures } from "../pacing/endpoint-failures.ts";
import type { EndpointHealth } from "../pacing/endpoint-health.ts";
import type { AttemptPlan, MemberOutcome } from "./member-outcome.ts";
import type { Recorder } from "./recorder.ts";

/** Ended requests are remembered for one to two times this, which is longer than any database read takes. */
const REMEMBER_MS = 5_000;
/** The receiver wants no more deliveries (RFC 9110 section 15.5.11, Standard Webhooks). */
const GONE = 410;
/** Shortest pause of an attempt for which this process could open no socket, in milliseconds. The longest is twice as long. */
const LACK_PAUSE_MS = 1_000;
/** Between two lines in the log about such attempts. */
const LACK_SAID_EVERY_MS = 10_000;
/** A request has ended by then: it takes at most 10 s to its headers and 2 s for its body. */
export const LEASE_MS = 15_000;

export interface InFlightRequest {
  readonly deliveryId: string;
  readonly carrier: string;
  readonly epoch: number;
  readonly cycle: number;
  readonly endpointId: string;
  /** Unix milliseconds. */
  readonly startedAtMs: number;
  /**
   * Resolves to undefined if another process recorded the outcome of this attempt first. Rejects only if the outcome
   * was not recorded and cannot be.
   */
  readonly outcome: Promise<MemberOutcome | undefined>;
  /** Tells other processes that the request is in progress. */
  lease(): Promise<void>;
}

export interface InFlightRequestsOptions {
  /** Sends a delivery and resolves to its outcome: `sendDelivery`. */
  readonly send: (delivery: LoadedDelivery, attempt: number) => Promise<SentAttempt>;
  readonly recorder: Recorder;
  readonly health: EndpointHealth;
  readonly failures: EndpointFailures;
  readonly clock: Clock;
  readonly disableGone: ReturnType<typeof createGoneDisabler>;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

export class InFlightRequests {
  readonly #options: InFlightRequestsOptions;
  readonly #active = new Map<string, InFlightRequest>();
  /** Requests in progress of cancelled cycles, beside the same attempt of a resend. */
  readonly #superseded = new Set<InFlightRequest>();
  /** Two generations of ended requests, for callers that read the database just before a request ended. */
  #recentlyEnded = new Map<string, InFlightRequest>();
  #recentlyEndedBefore = new Map<string, InFlightRequest>();
  #generationEndsMs = 0;
  #lackSaidAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: InFlightRequestsOptions) {
    this.#options = options;
  }

  /** Returns this process's request for the attempt, if it is in progress or has just ended. */
  join(key: AttemptKey, cycle: number): InFlightRequest | undefined {
    const request = this.#find(key);
    return request?.cycle === cycle ? request : undefined;
  }

  /** Like {@link join}, without a database read first: matches only the same carrier and epoch. */
  joinOwn(key: AttemptKey): InFlightRequest | undefined {
    const request = this.#find(key);
    return request?.carrier === key.carrier && request.epoch === key.epoch ? request : undefined;
  }

  /** Sends a request. The caller has made sure that no other process did. */
  send(key: AttemptKey, delivery: LoadedDelivery, plan: AttemptPlan): InFlightRequest {
    const { send, recorder, clock, log } = this.#options;
    const startedAtMs = clock.now();
    const attemptId = newId("attempt", startedAtMs, this.#options.randomBytes);
    const id = requestKey(key);
    const spans = tracer();
    const span = spans && startAttempt(spans, key, delivery);
    const sent = send(delivery, key.attempt);
    const outcome = (span === undefined ? sent : endedWith(span, sent)).then(
      async (ended) => await this.#record({ key, delivery, plan, attemptId, span, sent: ended }),
      (error: unknown) => this.#postpone(error),
    );
    // Registered before any waiter, so waiters find the request ended. The caller may have left when it fails.
    outcome.then(
      (ended) => (ended?.kind === "postponed" ? void this.#remove(id, request) : this.#end(id, request)),
      (error: unknown) => {
        // A retry must send again instead of getting this failure.
        this.#remove(id, request);
        countInternalFailure();
        log.error(
          {
            err: error,
            ...traceFields(span),
            tenant_id: delivery.tenant_id,
            delivery_id: key.deliveryId,
            event_id: delivery.event_id,
            endpoint_id: delivery.endpoint_id,
            carrier: key.carrier,
            attempt: key.attempt,
          },
          "an attempt could not be made or recorded because of an internal failure",
        );
      },
    );
    const request: InFlightRequest = {
      deliveryId: key.deliveryId,
      carrier: key.carrier,
      epoch: key.epoch,
      cycle: delivery.cycle,
      endpointId: delivery.endpoint_id,
      startedAtMs,
      outcome,
      lease: async () =>
        await recorder.inFlight({
          attemptId,
          deliveryId: key.deliveryId,
          tenantId: delivery.tenant_id,
          cycle: delivery.cycle,
          attempt: key.attempt,
          startedAt: new Date(startedAtMs),
          leaseUntil: new Date(startedAtMs + LEASE_MS),
        }),
    };
    const former = this.#active.get(id);
    if (former !== undefined) {
      this.#superseded.add(former);
    }
    this.#active.set(id, request);
    return request;
  }

  /** Returns the deliveries with a request in progress. */
  deliveries(): string[] {
    return this.#all().map(({ deliveryId }) => deliveryId);
  }

  /** Resolves when no request is in progress. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#all().map(async (request) => await request.outcome));
  }

  #all(): InFlightRequest[] {
    return [...this.#active.values(), ...this.#superseded];
  }

  #find(key: AttemptKey): InFlightRequest | undefined {
    const id = requestKey(key);
    return this.#active.get(id) ?? this.#recentlyEnded.get(id) ?? this.#recentlyEndedBefore.get(id);
  }

  /** Returns false if a later cycle has taken the request's place. */
  #remove(id: string, request: InFlightRequest): boolean {
    return !this.#superseded.delete(request) && this.#active.delete(id);
  }

  #end(id: string, request: InFlightRequest): void {
    const isLatest = this.#remove(id, request);
    const nowMs = this.#options.clock.now();
    if (nowMs >= this.#generationEndsMs) {
      this.#recentlyEndedBefore = this.#recentlyEnded;
      this.#recentlyEnded = new Map();
      this.#generationEndsMs = nowMs + REMEMBER_MS;
    }
    if (isLatest) {
      // Drop the delivery that the lease refers to, because thousands of requests are remembered.
      this.#recentlyEnded.set(id, { ...request, lease: noLease });
    }
  }

  /**
   * Returns the outcome of an attempt for which there was no socket: it is made again when others have ended, at a random
   * time, so that not all try at once.
   *
   * @throws every other error
   */
  #postpone(error: unknown): MemberOutcome {
    if (!isOwnLack(error)) {
      throw error;
    }
    const { clock, log, randomBytes } = this.#options;
    const nowMs = clock.now();
    if (nowMs - this.#lackSaidAtMs >= LACK_SAID_EVERY_MS) {
      this.#lackSaidAtMs = nowMs;
      log.warn({ err: error }, "attempts wait, because this process can open no further connection");
    }
    const [random = 0] = randomBytes(1);
    return { kind: "postponed", dueMs: nowMs + Math.floor(LACK_PAUSE_MS * (1 + random / 256)) };
  }

  async #record(ended: {
    readonly key: AttemptKey;
    readonly delivery: LoadedDelivery;
    readonly plan: AttemptPlan;
    readonly attemptId: string;
    readonly span: TracedSpan | undefined;
    readonly sent: SentAttempt;
  }): Promise<MemberOutcome | undefined> {
    const { key, delivery, plan, attemptId, sent } = ended;
    const endedAtMs = sent.startedAtMs + sent.durationMs;
    countAttempt({
      deliveryId: key.deliveryId,
      first: key.attempt === 1 && delivery.cycle === 1,
      startedAtMs: sent.startedAtMs,
      durationMs: sent.durationMs,
      error: sent.error,
    });
    const outcome = classify(plan, sent);
    const leaves = outcome.kind === "failed" && plan.leaves(delivery.endpoint_id);
    this.#options.health.noteOutcome(
      delivery.endpoint_id,
      { ok: sent.error === null, timedOut: sent.error === "timeout", durationMs: sent.durationMs },
      this.#options.clock.now(),
    );
    this.#options.failures.note(
      delivery.endpoint_id,
      { ok: sent.error === null, last: outcome.kind === "dead" },
      endedAtMs,
    );
    const written = await this.#options.recorder.outcome({
      deliveryId: key.deliveryId,
      carrier: key.carrier,
      epoch: key.epoch,
      attempt: key.attempt,
      attemptId,
      tenantId: delivery.tenant_id,
      cycle: delivery.cycle,
      startedAt: new Date(sent.startedAtMs),
      durationMs: sent.durationMs,
      status: sent.status,
      error: sent.error,
      responseBody: sent.responseBody,
      nextState: NEXT_STATES[outcome.kind],
      nextAttemptAt: outcome.kind === "failed" ? new Date(outcome.dueMs) : null,
      endedAt: new Date(endedAtMs),
      expiresAt: outcome.kind === "dead" ? new Date(endedAtMs + plan.deadLetterMs) : null,
      leaves,
    });
    if (!written) {
      return undefined;
    }
    if (outcome.kind !== "failed") {
      countEnded(NEXT_STATES[outcome.kind]);
    }
    if (sent.status === GONE) {
      await this.#disableGone(delivery, ended.span);
    }
    return leaves ? { kind: "moved" } : outcome;
  }

  /** Disables the endpoint. The attempt's outcome stands: if this fails, the next 410 disables the endpoint. */
  async #disableGone(
    { tenant_id: tenantId, endpoint_id: endpointId, url }: LoadedDelivery,
    span: TracedSpan | undefined,
  ): Promise<void> {
    try {
      await this.#options.disableGone({ tenantId, endpointId, url });
    } catch (error) {
      const ids = { ...traceFields(span), tenant_id: tenantId, endpoint_id: endpointId };
      this.#options.log.error({ err: error, ...ids }, "an endpoint that answered 410 could not be disabled");
    }
  }
}

/** An ended request needs no lease, because its outcome is recorded. */
async function noLease(): Promise<void> {}

const NEXT_STATES = { delivered: "DELIVERED", failed: "RETRYING", dead: "DEAD_LETTERED" } as const;

/** Only the latest cycle of a delivery is joined. An earlier one was cancelled if its request is still in progress. */
function requestKey({ deliveryId, attempt }: AttemptKey): string {
  return `${deliveryId}/${attempt}`;
}

/** Names an attempt for as long as its carrier holds it. */
export function attemptName({ deliveryId, epoch, attempt }: AttemptKey): string {
  return `${deliveryId}/${epoch}/${attempt}`;
}

/** Returns what a response means for the delivery. */
function classify(
  plan: AttemptPlan,
  sent: SentAttempt,
): MemberOutcome & { readonly kind: "delivered" | "dead" | "failed" } {
  if (sent.error === null) {
    return { kind: "delivered" };
  }
  if (plan.attempt >= ATTEMPT_MAX) {
    return { kind: "dead", answer: answerOf(sent) };
  }
  const answeredMs = sent.startedAtMs + sent.durationMs;
  const due = nextDueMs({
    offsets: plan.offsetsMs,
    anchorMs: plan.anchorMs ?? sent.startedAtMs,
    attempt: plan.attempt,
    endedAtMs: answeredMs,
    retryAfterMs: sent.retryAfterMs,
  });
  return { kind: "failed", ...due, answeredMs, answer: answerOf(sent) };
}
