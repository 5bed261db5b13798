/**
 * Carries out attempts, once each (architecture 3): what has an outcome is not sent again, what is under way here is
 * joined, what is under way elsewhere is waited for until its lease has passed. May be called any number of times
 * for the same attempt, also beside itself.
 */
import type { AttemptKey, LoadedDelivery } from "../database/repositories/attempts.ts";
import type { Clock } from "../domain/clock.ts";
import { shiftForLateness } from "../domain/retry-schedule.ts";
import type { Flight, Flights } from "./flights.ts";
import type { Recorder } from "./recorder.ts";

/** First attempts are waited for so long; the rest is `settle`'s. */
const FIRST_WAIT_MS = 1_000;
const LEASE_POLL_MS = 500;

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

export interface AttemptServiceOptions {
  readonly load: (key: AttemptKey) => Promise<LoadedDelivery | undefined>;
  /** Takes a delivery whose endpoint is gone or disabled out of the schedule. */
  readonly park: (key: AttemptKey, to: "DEAD_LETTERED" | "CANCELLED", plan: AttemptPlan) => Promise<void>;
  readonly flights: Flights;
  readonly recorder: Recorder;
  readonly clock: Clock;
  readonly wait: (ms: number) => Promise<void>;
}

/** What one member's outcome is waited for with. */
interface Watch {
  readonly plan: AttemptPlan;
  /** Resolves a second after the run began. */
  readonly patience: Promise<void>;
  readonly hurry: boolean;
}

export class AttemptService {
  readonly #options: AttemptServiceOptions;

  constructor(options: AttemptServiceOptions) {
    this.#options = options;
  }

  /** @throws when the database cannot be read; nothing was sent twice then */
  async run({ carrier, members, plan, hurry }: AttemptRequest): Promise<AttemptRun> {
    const { clock, wait } = this.#options;
    const startedAtMs = clock.now();
    const watch = { plan: anchored(plan, startedAtMs), patience: wait(FIRST_WAIT_MS), hurry };
    const outcomes = await Promise.all(
      members.map(
        async ({ id, epoch }) =>
          await this.#watchMember({ deliveryId: id, epoch, carrier, attempt: plan.attempt }, watch),
      ),
    );
    return { startedAtMs, endedAtMs: clock.now(), outcomes };
  }

  /** Resolves when no request is under way and every outcome is written. */
  async drain(): Promise<void> {
    await this.#options.flights.drain();
    await this.#options.recorder.drain();
  }

  /** A member whose request outlives the first second gets a lease; a caller in a hurry leaves then. */
  async #watchMember(key: AttemptKey, { plan, patience, hurry }: Watch): Promise<MemberOutcome> {
    let flight: Flight | undefined;
    const outcome = this.#settle(key, plan, (launched) => {
      flight = launched;
    });
    const early = await Promise.race([outcome, patience.then(() => undefined)]);
    if (early !== undefined) {
      return early;
    }
    await flight?.lease();
    if (!hurry) {
      return await outcome;
    }
    outcome.catch(() => undefined);
    return { kind: "unsettled" };
  }

  /** One member up to a durable outcome. */
  async #settle(
    key: AttemptKey,
    plan: AttemptPlan,
    onFlight: (flight: Flight) => void,
  ): Promise<MemberOutcome> {
    const { clock, flights, wait } = this.#options;
    for (;;) {
      const delivery = await this.#options.load(key);
      const known = outcomeOf(delivery, clock);
      if (delivery === undefined || known !== undefined) {
        return known ?? { kind: "moved" };
      }
      const joined = flights.join(key, delivery.cycle);
      if (joined !== undefined) {
        onFlight(joined);
        return await joined.outcome;
      }
      const leaseMs = (delivery.leaseUntil?.getTime() ?? 0) - clock.now();
      if (leaseMs > 0) {
        await wait(Math.min(LEASE_POLL_MS, leaseMs + 1));
        continue;
      }
      if (delivery.endpointState === "DELETED" || delivery.endpointState === "DISABLED") {
        const to = delivery.endpointState === "DELETED" ? "CANCELLED" : "DEAD_LETTERED";
        await this.#options.park(key, to, plan);
        return { kind: to === "CANCELLED" ? "moved" : "dead" };
      }
      const flight = flights.launch(key, delivery, plan);
      onFlight(flight);
      return await flight.outcome;
    }
  }
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
