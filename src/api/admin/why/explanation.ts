/**
 * Explanations in words: what happened to a delivery, an event, an endpoint, a replay job or a tenant, what it waits for,
 * until when, and what to do. These functions are pure; why.ts gathers the facts.
 */
import { verifyWorkflowId } from "#workflows/messages.ts";
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import type { TenantRow } from "#database/repositories/tenants.ts";
import type { AttemptError } from "#domain/delivery.ts";
import { FAILURES } from "#domain/shown-states.ts";
import { escapeControls } from "#domain/shown-text.ts";
import type { Pause } from "#temporal/open-workflow.ts";

/** Why an object is in its state. Public: scripts may depend on them. */
export const CAUSES = [
  "attempt_in_progress",
  "behind",
  "cancelled",
  "content_erased",
  "dead_letter",
  "delivered",
  "endpoint_deleted",
  "endpoint_disabled",
  "endpoint_failing",
  "endpoint_not_verified",
  "endpoint_slow",
  "expired",
  "filter_excluded",
  "healthy",
  "not_attempted",
  "matched",
  "no_endpoint",
  "no_worker",
  "not_subscribed",
  "queued",
  "rate_limited",
  "replay_completed",
  "replay_paused",
  "replay_running",
  "retry_overdue",
  "retry_scheduled",
  "temporal_unreachable",
  "tenant_erased",
  "tenant_held",
  "tenant_suspended",
  "workflow_paused",
] as const;
export type Cause = (typeof CAUSES)[number];

export interface Explanation {
  readonly cause: Cause;
  /** When this wait ends by itself; null if it does not, or nobody knows. */
  readonly waitsUntil: Date | null;
  /** What happened, what waits for what, and until when. */
  readonly happened: readonly string[];
  /** What to do. */
  readonly advice: string;
}

/** The state of the deployment around the explained object. */
export interface Surroundings {
  readonly now: Date;
  readonly tenant: TenantRow;
  readonly workers: { readonly live: number; readonly lastSeenAt: Date | null };
  readonly temporalReachable: boolean;
}

/** A retry is overdue if it is later than this, in milliseconds: the interval of the reconciliation, and some room. */
export const OVERDUE_AFTER_MS = 30_000;
const SECONDS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
] as const;

/** Returns a length of time in its two largest units, for instance `2 h 5 min`. */
export function lengthText(ms: number): string {
  let rest = Math.floor(Math.abs(ms) / 1_000);
  const parts: string[] = [];
  for (const [seconds, unit] of SECONDS) {
    const count = Math.floor(rest / seconds);
    rest -= count * seconds;
    if (count > 0) {
      parts.push(`${count} ${unit}`);
    }
  }
  return parts.length === 0 ? "less than a second" : parts.slice(0, 2).join(" ");
}

/** Returns an instant in UTC and its distance from now. */
export function instantText(at: Date, now: Date): string {
  const [day = "", time = ""] = at.toISOString().split("T");
  const ms = at.getTime() - now.getTime();
  const distance = ms > 0 ? `in ${lengthText(ms)}` : `${lengthText(ms)} ago`;
  return `${day} ${time.slice(0, 8)} UTC (${distance})`;
}

/** Returns the reason of a failed attempt. */
export function failureText({
  status,
  error,
}: {
  readonly status: number | null;
  readonly error: AttemptError | null;
}): string {
  return status !== null && (error === null || error === "status")
    ? `the receiver answered ${status}`
    : FAILURES[error ?? "status"].sentence;
}

/** Returns a URL without its query, which may hold a secret. */
export function shownUrl(url: string): string {
  return url.split("?", 1)[0] ?? "";
}

export function endpointText({ id, url }: Pick<Endpoint, "id" | "url">): string {
  return `endpoint ${id} (${shownUrl(url)})`;
}

/** Returns what stops all deliveries of the tenant; undefined if nothing does. */
export function stoppedByTenant({ tenant, now }: Surroundings): Explanation | undefined {
  if (tenant.erased_at !== null) {
    return {
      cause: "tenant_erased",
      waitsUntil: null,
      happened: [
        `Tenant ${tenant.id} was erased ${instantText(tenant.erased_at, now)}, so its open deliveries are cancelled.`,
      ],
      advice: "Nothing can be done: an erasure is final.",
    };
  }
  return tenant.held_at === null
    ? undefined
    : {
        cause: "tenant_held",
        waitsUntil: null,
        happened: [
          `Tenant ${escapeControls(tenant.name)} is on hold since ${instantText(tenant.held_at, now)}, so its deliveries wait and use no attempt.`,
        ],
        advice: `It waits until an operator runs: signet tenant release ${tenant.id}`,
      };
}

/** Returns what stops all deliveries of the deployment; undefined if nothing does. */
export function stoppedByService(
  { workers, temporalReachable, now }: Surroundings,
  needsTemporal: boolean,
): Explanation | undefined {
  if (workers.live === 0) {
    const seen =
      workers.lastSeenAt === null ? "" : ` The last one was seen ${instantText(workers.lastSeenAt, now)}.`;
    return {
      cause: "no_worker",
      waitsUntil: null,
      happened: [`No worker is alive, so nothing is delivered.${seen}`],
      advice: "Start a worker: signet worker. Nothing is lost meanwhile.",
    };
  }
  return temporalReachable || !needsTemporal
    ? undefined
    : {
        cause: "temporal_unreachable",
        waitsUntil: null,
        happened: ["Temporal is unreachable from the api, and retries, pings and replay jobs wait for it."],
        advice: "Restore Temporal (signet doctor shows the error). All of them continue where they were.",
      };
}

/** A workflow that an operator may have paused in Temporal, in the words of its reader. */
export interface PausedWork {
  /** Undefined if it is not paused. */
  readonly pause: Pause | undefined;
  readonly workflowId: string;
  /** Names the workflow, such as "Its workflow". */
  readonly subject: string;
  /** What the pause prevents. */
  readonly effect: string;
  /** What waits or does not wait meanwhile. */
  readonly meanwhile: string;
}

/** Returns that an operator has paused a workflow in Temporal; undefined if nobody has. */
export function stoppedByPause(
  { pause, workflowId, subject, effect, meanwhile }: PausedWork,
  { now }: Surroundings,
): Explanation | undefined {
  if (pause === undefined) {
    return undefined;
  }
  const since = pause.since === undefined ? "" : ` since ${instantText(pause.since, now)}`;
  const reason = pause.reason === "" ? "" : ` The reason given is: ${escapeControls(pause.reason)}.`;
  return {
    cause: "workflow_paused",
    waitsUntil: null,
    happened: [`${subject} ${workflowId} is paused in Temporal${since}, so ${effect}.${reason}`, meanwhile],
    advice: `It waits until an operator runs: temporal workflow unpause --namespace ${pause.namespace} --workflow-id ${workflowId}`,
  };
}

/** Returns that the pings of an endpoint are paused in Temporal; undefined if they are not. */
export function pingsStoppedByPause(
  { id, generation }: Pick<Endpoint, "id" | "generation">,
  pause: Pause | undefined,
  around: Surroundings,
): Explanation | undefined {
  return stoppedByPause(
    {
      pause,
      workflowId: verifyWorkflowId(id, generation),
      subject: "The workflow of the endpoint's verification",
      effect: "no ping is sent",
      meanwhile: "A request for another ping waits, too.",
    },
    around,
  );
}

/** Returns an explanation as one paragraph. */
export function paragraph({ happened, advice }: Explanation): string {
  return [...happened, advice].filter((sentence) => sentence !== "").join(" ");
}
