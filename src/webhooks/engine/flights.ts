/** Requests of this process that are under way: each from the decision to send until its outcome is durable. */
import type { Logger } from "pino";
import type { AttemptKey, LoadedDelivery } from "../../database/repositories/webhooks/attempts.ts";
import type { Clock } from "../../domain/clock.ts";
import { ATTEMPT_MAX, nextDueMs } from "../../domain/retry-schedule.ts";
import { tracer } from "../../observability/tracing.ts";
import { sendTraced } from "./attempt-span.ts";
import { countAttempt, countEnded, countInternalFailure } from "./delivery-metrics.ts";
import type { DeliverySender, SentAttempt } from "../sending/delivery-sender.ts";
import type { EndpointFailures } from "../pacing/endpoint-failures.ts";
import type { EndpointHealth } from "../pacing/endpoint-health.ts";
import type { AttemptPlan, MemberOutcome } from "./member-outcome.ts";
import type { Recorder } from "./recorder.ts";

/** Landed flights are remembered for one to two times this: longer than any look into the database takes. */
const REMEMBER_MS = 5_000;
/** The receiver wants no more deliveries (RFC 9110 section 15.5.11, Standard Webhooks). */
const GONE = 410;
/** A request lives 10 s to its headers and 2 s to the end of its body; then it has certainly ended. */
export const LEASE_MS = 15_000;

export interface Flight {
  readonly deliveryId: string;
  readonly carrier: string;
  readonly epoch: number;
  readonly cycle: number;
  readonly endpointId: string;
  /** Unix milliseconds. */
  readonly startedAtMs: number;
  /**
   * Undefined: another process's outcome of this attempt was recorded first and stands. Rejects only when the outcome
   * was neither recorded nor can be.
   */
  readonly outcome: Promise<MemberOutcome | undefined>;
  /** Makes it known to other processes that the request is under way. */
  lease(): Promise<void>;
}

export interface FlightsOptions {
  readonly sender: DeliverySender;
  readonly recorder: Recorder;
  readonly health: EndpointHealth;
  readonly failures: EndpointFailures;
  readonly clock: Clock;
  /** Disables an endpoint whose receiver has answered 410 Gone. */
  readonly disableGone: (endpoint: {
    readonly tenantId: string;
    readonly endpointId: string;
    readonly url: string;
  }) => Promise<void>;
  readonly newAttemptId: () => string;
  readonly log: Logger;
}

export class Flights {
  readonly #options: FlightsOptions;
  readonly #flying = new Map<string, Flight>();
  /** Two generations of landed flights: who looked into the database just before the landing finds them here. */
  #landed = new Map<string, Flight>();
  #landedBefore = new Map<string, Flight>();
  #generationEndsMs = 0;

  constructor(options: FlightsOptions) {
    this.#options = options;
  }

  /** The request for this attempt that is under way here, or was a moment ago. */
  join(key: AttemptKey, cycle: number): Flight | undefined {
    const flight = this.#find(key);
    return flight?.cycle === cycle ? flight : undefined;
  }

  /** The same, for who has not looked into the database: only a request of the very same carrier and epoch. */
  joinOwn(key: AttemptKey): Flight | undefined {
    const flight = this.#find(key);
    return flight?.carrier === key.carrier && flight.epoch === key.epoch ? flight : undefined;
  }

  /** Sends. The caller has made sure that nobody else has. */
  launch(key: AttemptKey, delivery: LoadedDelivery, plan: AttemptPlan): Flight {
    const { sender, recorder, clock, log } = this.#options;
    const startedAtMs = clock.now();
    const attemptId = this.#options.newAttemptId();
    const flightId = flightKey(key);
    const spans = tracer();
    const sending =
      spans === undefined
        ? sender.send(delivery, key.attempt)
        : sendTraced(spans, key, delivery, async () => await sender.send(delivery, key.attempt));
    const outcome = sending.then(async (sent) => await this.#book({ key, delivery, plan, attemptId, sent }));
    // First of all who wait for it: they find it landed. The caller may have left by the time it fails.
    outcome.then(
      () => this.#land(flightId),
      (error: unknown) => {
        // Whoever tries again must send, not be told of this failure again.
        this.#flying.delete(flightId);
        countInternalFailure();
        log.error(
          {
            err: error,
            tenant_id: delivery.tenantId,
            delivery_id: key.deliveryId,
            event_id: delivery.eventId,
            endpoint_id: delivery.endpointId,
            carrier: key.carrier,
            attempt: key.attempt,
          },
          "an attempt could not be made or kept, by a failure of ours",
        );
      },
    );
    const flight: Flight = {
      deliveryId: key.deliveryId,
      carrier: key.carrier,
      epoch: key.epoch,
      cycle: delivery.cycle,
      endpointId: delivery.endpointId,
      startedAtMs,
      outcome,
      lease: async () =>
        await recorder.inFlight({
          attemptId,
          deliveryId: key.deliveryId,
          tenantId: delivery.tenantId,
          cycle: delivery.cycle,
          attempt: key.attempt,
          startedAt: new Date(startedAtMs),
          leaseUntil: new Date(startedAtMs + LEASE_MS),
        }),
    };
    this.#flying.set(flightId, flight);
    return flight;
  }

  /** Deliveries whose request is under way. */
  deliveries(): string[] {
    return [...this.#flying.values()].map(({ deliveryId }) => deliveryId);
  }

  /** Resolves when nothing is under way. */
  async drain(): Promise<void> {
    await Promise.allSettled([...this.#flying.values()].map(async (flight) => await flight.outcome));
  }

  #find(key: AttemptKey): Flight | undefined {
    const id = flightKey(key);
    return this.#flying.get(id) ?? this.#landed.get(id) ?? this.#landedBefore.get(id);
  }

  #land(flightId: string): void {
    const flight = this.#flying.get(flightId);
    this.#flying.delete(flightId);
    const nowMs = this.#options.clock.now();
    if (nowMs >= this.#generationEndsMs) {
      this.#landedBefore = this.#landed;
      this.#landed = new Map();
      this.#generationEndsMs = nowMs + REMEMBER_MS;
    }
    if (flight !== undefined) {
      // Without the delivery, which a flight's lease is made of: thousands are remembered.
      this.#landed.set(flightId, { ...flight, lease: landedLease });
    }
  }

  async #book(landed: {
    readonly key: AttemptKey;
    readonly delivery: LoadedDelivery;
    readonly plan: AttemptPlan;
    readonly attemptId: string;
    readonly sent: SentAttempt;
  }): Promise<MemberOutcome | undefined> {
    const { key, delivery, plan, attemptId, sent } = landed;
    const endedAtMs = sent.startedAtMs + sent.durationMs;
    countAttempt({
      deliveryId: key.deliveryId,
      first: key.attempt === 1 && delivery.cycle === 1,
      startedAtMs: sent.startedAtMs,
      durationMs: sent.durationMs,
      error: sent.error,
    });
    const outcome = judge(plan, sent);
    const leaves = plan.part && outcome.kind === "failed";
    this.#options.health.noteOutcome(
      delivery.endpointId,
      { ok: sent.error === null, durationMs: sent.durationMs },
      this.#options.clock.now(),
    );
    this.#options.failures.note(
      delivery.endpointId,
      { ok: sent.error === null, last: outcome.kind === "dead" },
      endedAtMs,
    );
    const written = await this.#options.recorder.outcome({
      deliveryId: key.deliveryId,
      carrier: key.carrier,
      epoch: key.epoch,
      attempt: key.attempt,
      attemptId,
      tenantId: delivery.tenantId,
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
      await this.#disableGone(delivery);
    }
    return leaves ? { kind: "moved" } : outcome;
  }

  /** The outcome of the attempt stands in any case: where this fails, the next 410 disables the endpoint. */
  async #disableGone({ tenantId, endpointId, url }: LoadedDelivery): Promise<void> {
    try {
      await this.#options.disableGone({ tenantId, endpointId, url });
    } catch (error) {
      const ids = { tenant_id: tenantId, endpoint_id: endpointId };
      this.#options.log.error({ err: error, ...ids }, "an endpoint that answered 410 could not be disabled");
    }
  }
}

/** What has landed needs no lease: its outcome is on record. */
async function landedLease(): Promise<void> {}

const NEXT_STATES = { delivered: "DELIVERED", failed: "RETRYING", dead: "DEAD_LETTERED" } as const;

/** A delivery's cycles follow each other: the same attempt of two cycles is never under way at once. */
function flightKey({ deliveryId, attempt }: AttemptKey): string {
  return `${deliveryId}/${attempt}`;
}

/** Names an attempt as long as its carrier has it. */
export function attemptName({ deliveryId, epoch, attempt }: AttemptKey): string {
  return `${deliveryId}/${epoch}/${attempt}`;
}

/** What an answer means for the delivery. */
function judge(
  plan: AttemptPlan,
  sent: SentAttempt,
):
  | { readonly kind: "delivered" | "dead" }
  | { readonly kind: "failed"; readonly dueMs: number; readonly asked: boolean } {
  if (sent.error === null) {
    return { kind: "delivered" };
  }
  if (plan.attempt >= ATTEMPT_MAX) {
    return { kind: "dead" };
  }
  const due = nextDueMs({
    offsets: plan.offsetsMs,
    anchorMs: plan.anchorMs ?? sent.startedAtMs,
    attempt: plan.attempt,
    endedAtMs: sent.startedAtMs + sent.durationMs,
    retryAfterMs: sent.retryAfterMs,
  });
  return { kind: "failed", ...due };
}
