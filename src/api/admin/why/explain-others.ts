/** Explains the states of endpoints, events, replay jobs and tenants. */
import { RETRY_WINDOW_HOURS } from "#domain/retry-schedule.ts";
import { replayWorkflowId } from "#workflows/messages.ts";
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import type { TenantLag } from "#database/repositories/operator-overview.ts";
import type { ReportedActivity } from "#database/repositories/webhooks/delivery-counts.ts";
import type { EventFacts } from "#database/repositories/webhooks/explained.ts";
import type { ReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";
import { escapeControls } from "#domain/shown-text.ts";
import type { Pause } from "#temporal/open-workflow.ts";
import {
  type Cause,
  endpointText,
  type Explanation,
  failureText,
  instantText,
  OVERDUE_AFTER_MS,
  lengthText,
  pingsStoppedByPause,
  stoppedByPause,
  stoppedByService,
  stoppedByTenant,
  type Surroundings,
} from "./explanation.ts";

export interface EndpointFacts {
  readonly endpoint: Endpoint;
  readonly activity: ReportedActivity;
  /** Until when its deliveries leave one after another; undefined if it is not slow. */
  readonly slowUntil: Date | undefined;
  /** The pause of its verification, by an operator in Temporal; undefined if it is not paused. */
  readonly pause: Pause | undefined;
}

function activityText({ recent, retrying, dead, lastFailure }: ReportedActivity, now: Date): string {
  const { attempts, failed } = recent;
  const counts = `${retrying} deliveries wait for a retry, and ${dead} are dead letters.`;
  const hour =
    attempts === 0
      ? "It had no attempts in the last hour."
      : `${attempts - failed} of ${attempts} attempts of the last hour succeeded.`;
  const last =
    lastFailure === null
      ? ""
      : ` The last failure was ${instantText(lastFailure.at, now)}: ${failureText(lastFailure)}.`;
  return `${hour} ${counts}${last}`;
}

/** Explains what an endpoint does and why. */
export function explainEndpoint(facts: EndpointFacts, around: Surroundings): Explanation {
  const { endpoint, activity, slowUntil, pause } = facts;
  const { id, state, verification_next_attempt_at: next, verification_last_error: lastError } = endpoint;
  const { now } = around;
  const begin = `${endpointText(endpoint)} is ${state}.`.replace(/^e/, "E");
  const explained = (cause: Explanation): Explanation => ({
    ...cause,
    happened: [begin, ...cause.happened, activityText(activity, now)],
  });
  const isPending = state === "PENDING";
  const stopped =
    stoppedByTenant(around) ??
    (isPending ? pingsStoppedByPause(endpoint, pause, around) : undefined) ??
    stoppedByService(around, isPending);
  if (stopped !== undefined) {
    return explained(stopped);
  }
  if (isPending) {
    const error = lastError === null ? "" : ` The last ping failed: ${lastError}.`;
    return explained({
      cause: "endpoint_not_verified",
      waitsUntil: next,
      happened: [
        `It receives nothing until it acknowledges a ping.${error}`,
        next === null ? "No further ping is scheduled." : `The next ping is due ${instantText(next, now)}.`,
      ],
      advice: `Fix the receiver; the tenant sends another ping with: signet endpoint verify ${id}`,
    });
  }
  if (state === "DISABLED") {
    const reasons = {
      tenant: "Its tenant disabled it.",
      failing: "It was disabled because it failed for too long.",
      gone: "It was disabled because the receiver answered 410 Gone.",
    };
    return explained({
      cause: "endpoint_disabled",
      waitsUntil: null,
      happened: [
        reasons[endpoint.disabled_reason ?? "tenant"],
        "New events for it become dead letters at once.",
      ],
      advice: `Once the receiver works, the tenant runs: signet endpoint enable ${id}; then it replays the dead letters.`,
    });
  }
  return explained(working(activity, slowUntil, now));
}

/** Returns how an active endpoint that nothing stops works. */
function working(
  { health, health_since: healthSince, failing_since: failingSince, results }: ReportedActivity,
  slowUntil: Date | undefined,
  now: Date,
): Explanation {
  const since = failingSince ?? healthSince ?? now;
  if (health === "failing") {
    return {
      cause: "endpoint_failing",
      waitsUntil: null,
      happened: [`Its attempts have failed since ${instantText(since, now)}; its deliveries are retried.`],
      advice: `Inform the tenant: the receiver must be fixed. Retries follow for ${RETRY_WINDOW_HOURS} hours, then dead letters.`,
    };
  }
  if (slowUntil !== undefined) {
    return {
      cause: "endpoint_slow",
      waitsUntil: slowUntil,
      happened: ["It was slow or failing within the last minute, so its deliveries leave one after another."],
      advice: "The receiver must answer within a second.",
    };
  }
  if (results === "") {
    return {
      cause: "not_attempted",
      waitsUntil: null,
      happened: [
        "It is verified. It has received no event yet, apart from tests, so whether it works is unknown.",
      ],
      advice: "Nothing is to be done.",
    };
  }
  return {
    cause: "healthy",
    waitsUntil: null,
    happened: [health === "degraded" ? "It works, but some of its last 20 attempts failed." : "It works."],
    advice: "Nothing is to be done.",
  };
}

export interface EventMatches {
  readonly event: EventFacts;
  /** Number of its deliveries by state. */
  readonly deliveries: Readonly<Record<string, number>>;
  /** The tenant's endpoints, newest first, as they are now. */
  readonly endpoints: readonly Pick<Endpoint, "event_types" | "filter" | "state" | "created_at">[];
}

/** Explains what became of an event; of one without deliveries, why it matched no endpoint. */
export function explainEvent(
  { event, deliveries, endpoints }: EventMatches,
  { now }: Surroundings,
): Explanation {
  const accepted = `Event ${event.id} of type ${event.type} was accepted ${instantText(event.created_at, now)}.`;
  const states = Object.entries(deliveries);
  if (states.length > 0) {
    const counts = states.map(([state, count]) => `${count} ${state}`).join(", ");
    return {
      cause: "matched",
      waitsUntil: null,
      happened: [accepted, `Its deliveries are: ${counts}.`],
      advice: "To explain a delivery, run signet why with its id.",
    };
  }
  const explained = (cause: Cause, happened: string, advice: string): Explanation => ({
    cause,
    waitsUntil: null,
    happened: [accepted, "It has no deliveries.", happened],
    advice,
  });
  const missing = "The tenant can send it later with signet replay missing.";
  const then = endpoints.filter((endpoint) => endpoint.created_at <= event.created_at);
  if (then.length === 0) {
    return explained(
      "no_endpoint",
      "The tenant had none of its current endpoints then.",
      `The tenant registers an endpoint. ${missing}`,
    );
  }
  const subscribed = then.filter(
    ({ event_types: types }) => types.includes("*") || types.includes(event.type),
  );
  if (subscribed.length === 0) {
    return explained(
      "not_subscribed",
      `None of the tenant's ${then.length} endpoints subscribes to ${event.type}.`,
      `The tenant adds the type to an endpoint. ${missing}`,
    );
  }
  const filtered = subscribed.filter(({ filter }) => filter !== null);
  return filtered.length === subscribed.length
    ? explained(
        "filter_excluded",
        `The filters of all ${filtered.length} endpoints that subscribe to the type excluded it, or they were not active.`,
        `The tenant checks the filters against the event's data. ${missing}`,
      )
    : explained(
        "no_endpoint",
        `${subscribed.length} endpoints subscribe to the type, but none was verified then, or they subscribed later.`,
        missing,
      );
}

export interface ReplayFacts {
  readonly job: ReplayJob;
  /** The pause of its workflow, by an operator in Temporal; undefined if it is not paused. */
  readonly pause: Pause | undefined;
}

/** Returns how a job ended; undefined if it is open. */
function endedReplay(
  { id, state, done, failed, finished_at: finishedAt }: ReplayJob,
  now: Date,
): Explanation | undefined {
  if (finishedAt === null) {
    return undefined;
  }
  const ended = instantText(finishedAt, now);
  return state === "CANCELLED"
    ? {
        cause: "cancelled",
        waitsUntil: null,
        happened: [
          `It was cancelled ${ended}: by its tenant, or by an operator in Temporal. What was replayed stays replayed.`,
        ],
        advice: "For the rest, its tenant starts another job.",
      }
    : {
        cause: "replay_completed",
        waitsUntil: null,
        happened: [`It ended ${ended}.`, done === 0 ? "Nothing was replayed." : ""],
        advice:
          failed === 0
            ? `Its tenant sees what was delivered since with: signet replay show ${id}`
            : `Its tenant sees what could not be replayed with: signet replay items ${id} --state FAILED`,
      };
}

/** Returns how an open job goes on that nothing stops. */
function openReplay({ id, state, total, position, rate_per_second: rate }: ReplayJob): Explanation {
  if (state === "PAUSED") {
    return {
      cause: "replay_paused",
      waitsUntil: null,
      happened: ["It was paused, by its tenant or by an operator's signal, and replays nothing."],
      advice: `It waits until its tenant runs: signet replay resume ${id}`,
    };
  }
  const left = total - position;
  return {
    cause: "replay_running",
    waitsUntil: null,
    happened: [
      `It replays at most ${rate} a second, so the ${left} that are left take ${lengthText((1_000 * left) / rate)} or longer.`,
    ],
    advice: `Nothing is to be done. Its tenant follows it with: signet replay watch ${id}`,
  };
}

/** Explains how far a replay job has come, and what it waits for. */
export function explainReplay({ job, pause }: ReplayFacts, around: Surroundings): Explanation {
  const { id, state, total, done, skipped, failed, created_at: createdAt } = job;
  const paused = {
    pause,
    workflowId: replayWorkflowId(id),
    subject: "Its workflow",
    effect: "nothing more is replayed",
    meanwhile: "A cancellation has effect at once.",
  };
  const cause =
    endedReplay(job, around.now) ??
    stoppedByTenant(around) ??
    stoppedByPause(paused, around) ??
    stoppedByService(around, true) ??
    openReplay(job);
  return {
    ...cause,
    happened: [
      `Replay job ${id} was created ${instantText(createdAt, around.now)} and is ${state}.`,
      `Of ${total} deliveries or events, ${done} were replayed, ${skipped} were skipped, and ${failed} could not be replayed.`,
      ...cause.happened,
    ],
  };
}

export interface TenantFacts {
  readonly lag: Pick<TenantLag, "waiting" | "oldest_waiting" | "overdue" | "most_overdue"> | undefined;
  readonly endpoints: readonly Pick<Endpoint, "state">[];
  /** Ids of its failing endpoints. */
  readonly failing: readonly string[];
}

/** Number of failing endpoints that are named. */
const FAILING_NAMED = 3;
const NO_LAG = { waiting: 0, oldest_waiting: null, overdue: 0, most_overdue: null };

/** Returns why a tenant's deliveries flow or not, if nothing stops them. */
function flowing({ lag = NO_LAG, failing }: TenantFacts, { tenant, now }: Surroundings): Explanation {
  const { oldest_waiting: oldestWaiting, most_overdue: mostOverdue } = lag;
  const isSuspended = tenant.state === "SUSPENDED";
  const suspended = isSuspended ? "It gets no tokens while it is suspended; its deliveries continue." : "";
  const isLate = oldestWaiting !== null && now.getTime() - oldestWaiting.getTime() > OVERDUE_AFTER_MS;
  if (isLate || mostOverdue !== null) {
    return {
      cause: "behind",
      waitsUntil: null,
      happened: [suspended, "Its deliveries are behind."],
      advice:
        "Run signet top: if all tenants are behind, add workers; otherwise explain one of its deliveries.",
    };
  }
  const [first] = failing;
  if (first !== undefined) {
    return {
      cause: "endpoint_failing",
      waitsUntil: null,
      happened: [
        suspended,
        `${failing.length} of its endpoints fail: ${failing.slice(0, FAILING_NAMED).join(", ")}.`,
      ],
      advice: `Ask about one: signet why ${first}`,
    };
  }
  return {
    cause: isSuspended ? "tenant_suspended" : "healthy",
    waitsUntil: null,
    happened: [isSuspended ? suspended : "Its deliveries flow."],
    advice: isSuspended
      ? `It waits until an operator runs: signet tenant resume ${tenant.id}`
      : "Nothing is to be done.",
  };
}

/** Explains whether a tenant's deliveries flow. */
export function explainTenant(facts: TenantFacts, around: Surroundings): Explanation {
  const { lag = NO_LAG, endpoints } = facts;
  const { tenant, now } = around;
  const { waiting, oldest_waiting: oldestWaiting, overdue, most_overdue: mostOverdue } = lag;
  const count = (state: string): number => endpoints.filter((endpoint) => endpoint.state === state).length;
  const explanation = stoppedByTenant(around) ?? stoppedByService(around, true) ?? flowing(facts, around);
  return {
    ...explanation,
    happened: [
      `Tenant ${tenant.id} (${escapeControls(tenant.name)}) is ${tenant.state}.`,
      `Of its newest ${endpoints.length} endpoints, ${count("ACTIVE")} are active, ${count("PENDING")} unverified and ${count("DISABLED")} disabled.`,
      ...explanation.happened,
      oldestWaiting === null
        ? ""
        : `${waiting} deliveries wait for a worker, the oldest since ${instantText(oldestWaiting, now)}.`,
      mostOverdue === null
        ? ""
        : `${overdue} retries are overdue, the first since ${instantText(mostOverdue, now)}.`,
    ],
  };
}
