/** Explains the state of a delivery. */
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import type { Delivery, StoredAttempt } from "#database/repositories/webhooks/deliveries.ts";
import type { Pause } from "#temporal/open-workflow.ts";
import { ATTEMPT_MAX, DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import {
  endpointText,
  type Explanation,
  failureText,
  instantText,
  lengthText,
  OVERDUE_AFTER_MS,
  pingsStoppedByPause,
  stoppedByPause,
  stoppedByService,
  stoppedByTenant,
  type Surroundings,
} from "./explanation.ts";

export interface DeliveryFacts {
  readonly delivery: Delivery;
  /** Oldest first. */
  readonly attempts: readonly Pick<StoredAttempt, "started_at" | "duration_ms" | "status" | "error">[];
  /** Undefined if it is deleted. */
  readonly endpoint: Endpoint | undefined;
  /** Until when the endpoint's deliveries leave one after another; undefined if it is not slow. */
  readonly slowUntil: Date | undefined;
  /** The pause of its workflow, by an operator in Temporal; undefined if it is not paused. */
  readonly pause: Pause | undefined;
  /** That of its endpoint's verification. */
  readonly verificationPause: Pause | undefined;
  /** Deliveries of the tenant that wait before this one; 1,000 means that or more. */
  readonly waitingBefore: number;
}

function attemptsText({ delivery, attempts }: DeliveryFacts, now: Date): string {
  const last = attempts.findLast(({ duration_ms: durationMs }) => durationMs !== null);
  if (last === undefined) {
    return "It had no attempt yet.";
  }
  const cycle = delivery.cycle > 1 ? `, cycle ${delivery.cycle}` : "";
  const result = last.error === null ? `the receiver answered ${last.status}` : failureText(last);
  return `The last attempt (${delivery.attempt_count} of ${ATTEMPT_MAX}${cycle}) began ${instantText(last.started_at, now)}: ${result}.`;
}

/** Returns why an ended delivery ended; undefined if it is open. */
function ended({ delivery }: DeliveryFacts, { now }: Surroundings): Explanation | undefined {
  const { state, reason, expires_at: expiresAt, delivered_at: deliveredAt } = delivery;
  switch (state) {
    case "DELIVERED":
      return {
        cause: "delivered",
        waitsUntil: null,
        happened:
          deliveredAt === null
            ? []
            : [
                `It was delivered ${instantText(deliveredAt, now)}, ${lengthText(deliveredAt.getTime() - delivery.created_at.getTime())} after its acceptance.`,
              ],
        advice: "Nothing is to be done.",
      };
    case "DEAD_LETTERED":
      return {
        cause: "dead_letter",
        waitsUntil: expiresAt,
        happened: [
          reason === "endpoint_disabled"
            ? "It is a dead letter because its endpoint was disabled when the attempt was due."
            : `It is a dead letter because all ${ATTEMPT_MAX} attempts failed.`,
          expiresAt === null
            ? ""
            : `It can be replayed until ${instantText(expiresAt, now)}; then it expires.`,
        ],
        advice: `Once the receiver works, its tenant replays it: signet dlq replay ${delivery.id}`,
      };
    case "EXPIRED":
      return {
        cause: "expired",
        waitsUntil: null,
        happened: [`It was a dead letter for ${DEAD_LETTER_DAYS} days, and nobody replayed it.`],
        advice: "It cannot be replayed any more. The tenant can publish the event again.",
      };
    case "CANCELLED":
      return {
        cause: reason === "content_erased" ? "content_erased" : "cancelled",
        waitsUntil: null,
        happened: [
          reason === "content_erased"
            ? "It was cancelled because its event's content was erased."
            : "It was cancelled: by its tenant, or because its endpoint was deleted.",
        ],
        advice: "Nothing is to be done; a cancellation is final.",
      };
    case "QUEUED":
    case "RETRYING":
    default:
      return undefined;
  }
}

/** Returns how the endpoint stops an open delivery; undefined if it does not. */
function stoppedByEndpoint(
  { endpoint, verificationPause }: DeliveryFacts,
  around: Surroundings,
): Explanation | undefined {
  if (endpoint === undefined) {
    return {
      cause: "endpoint_deleted",
      waitsUntil: null,
      happened: ["Its endpoint was deleted, so it is cancelled when its next attempt is due."],
      advice: "Nothing is to be done.",
    };
  }
  const { id, state, disabled_reason: reason, verification_next_attempt_at: next } = endpoint;
  if (state === "PENDING") {
    const unverified = "Its endpoint is not verified: the receiver has not acknowledged a ping.";
    const paused = pingsStoppedByPause(endpoint, verificationPause, around);
    return paused === undefined
      ? {
          cause: "endpoint_not_verified",
          waitsUntil: next,
          happened: [
            unverified,
            next === null ? "" : `The next ping is due ${instantText(next, around.now)}.`,
          ],
          advice: `The receiver must answer the ping. The tenant sends another one with: signet endpoint verify ${id}`,
        }
      : { ...paused, happened: [unverified, ...paused.happened] };
  }
  return state !== "DISABLED" || reason === "failing"
    ? undefined
    : {
        cause: "endpoint_disabled",
        waitsUntil: null,
        happened: [
          reason === "gone"
            ? "Its endpoint was disabled because the receiver answered 410 Gone."
            : "Its endpoint was disabled by its tenant.",
          "It becomes a dead letter when its next attempt is due.",
        ],
        advice: `The tenant enables the endpoint (signet endpoint enable ${id}), then replays its dead letters.`,
      };
}

/** Explains a delivery that waits for its first attempt. */
function queued(facts: DeliveryFacts, { now }: Surroundings): Explanation {
  const { delivery, endpoint, slowUntil, waitingBefore } = facts;
  if (endpoint?.rate_limit != null && delivery.workflow_id !== null) {
    return {
      cause: "rate_limited",
      waitsUntil: null,
      happened: [
        `It waits for its turn: its endpoint takes ${endpoint.rate_limit} deliveries per second at most.`,
      ],
      advice: "The tenant can raise the endpoint's rate_limit; the order stays the same.",
    };
  }
  if (slowUntil !== undefined) {
    return {
      cause: "endpoint_slow",
      waitsUntil: slowUntil,
      happened: [
        "Its endpoint was slow or failing within the last minute, so its deliveries leave one after another.",
        `The endpoint counts as slow until ${instantText(slowUntil, now)}, or longer if it stays slow.`,
      ],
      advice: "The receiver must answer within a second. Nothing is lost meanwhile.",
    };
  }
  if (delivery.workflow_id !== null) {
    return {
      cause: "attempt_in_progress",
      waitsUntil: null,
      happened: ["A worker has claimed it, and its first attempt is in progress or about to begin."],
      advice: "Wait a minute and ask again. If it stays so, run signet doctor.",
    };
  }
  const before = waitingBefore >= 1_000 ? "1,000 or more" : String(waitingBefore);
  return {
    cause: "queued",
    waitsUntil: null,
    happened: [`It waits for a worker, with ${before} of the tenant's deliveries before it.`],
    advice: "Nothing, if signet top shows that the queue gets shorter. Otherwise add workers.",
  };
}

/** Explains a delivery that waits for another attempt. */
function retrying({ delivery, attempts }: DeliveryFacts, { now }: Surroundings): Explanation {
  const next = delivery.next_attempt_at;
  if (attempts.at(-1)?.duration_ms === null) {
    return {
      cause: "attempt_in_progress",
      waitsUntil: null,
      happened: ["An attempt is in progress now."],
      advice: "Wait for its result.",
    };
  }
  const number = delivery.attempt_count + 1;
  if (next === null || next.getTime() < now.getTime() - OVERDUE_AFTER_MS) {
    return {
      cause: "retry_overdue",
      waitsUntil: null,
      happened: [
        next === null
          ? `Attempt ${number} of ${ATTEMPT_MAX} is due.`
          : `Attempt ${number} of ${ATTEMPT_MAX} was due ${instantText(next, now)}, so the workers are behind.`,
      ],
      advice:
        "Run signet doctor and signet top. If workers are busy, add some; a slow endpoint delays only itself.",
    };
  }
  return {
    cause: "retry_scheduled",
    waitsUntil: next,
    happened: [`Attempt ${number} of ${ATTEMPT_MAX} is due ${instantText(next, now)}.`],
    advice: `Fix the receiver. To attempt it at once, its tenant runs: signet delivery retry ${delivery.id}`,
  };
}

/** Explains a delivery. */
export function explainDelivery(facts: DeliveryFacts, around: Surroundings): Explanation {
  const { delivery, endpoint } = facts;
  const isOpen = delivery.state === "QUEUED" || delivery.state === "RETRYING";
  const cause =
    ended(facts, around) ??
    stoppedByTenant(around) ??
    stoppedByPause(
      {
        pause: facts.pause,
        workflowId: delivery.workflow_id ?? "",
        subject: "Its workflow",
        effect: "no attempt is made",
        meanwhile: "A request to attempt it now waits, too; a cancellation has effect at once.",
      },
      around,
    ) ??
    stoppedByEndpoint(facts, around) ??
    stoppedByService(around, delivery.state === "RETRYING") ??
    (delivery.state === "QUEUED" ? queued(facts, around) : retrying(facts, around));
  const to = endpoint === undefined ? `endpoint ${delivery.endpoint_id}` : endpointText(endpoint);
  return {
    ...cause,
    happened: [
      `Delivery ${delivery.id} of ${delivery.event_type} to ${to} was accepted ${instantText(delivery.created_at, around.now)} and is ${delivery.state}.`,
      ...(isOpen || delivery.state === "DEAD_LETTERED" ? [attemptsText(facts, around.now)] : []),
      ...cause.happened,
    ],
  };
}
