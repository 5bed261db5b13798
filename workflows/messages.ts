/**
 * What the outside knows of the workflows: names, inputs, signals, queries, search attributes. Everything here is
 * public API (wire.md, Temporal) and lies in histories for up to ten days.
 */
import { defineSearchAttributeKey } from "@temporalio/common";
import { defineQuery, defineSignal } from "@temporalio/workflow";
import type { Member, ReplayJobStatus } from "../activities/types.ts";

export const TASK_QUEUES = {
  /** Workflows of deliveries and first attempts to healthy endpoints. */
  deliveries: "signet-deliveries",
  /** Retries, unanswered first attempts, slow and failing endpoints. */
  slow: "signet-deliveries-slow",
  /** Verification, bulk replay, upkeep. */
  control: "signet-control",
} as const;

export const WORKFLOW_TYPES = {
  deliver: "deliver",
  verifyEndpoint: "verifyEndpoint",
  replayDeadLetters: "replayDeadLetters",
  purgeExpired: "purgeExpired",
  rotateCredentials: "rotateCredentials",
  rotateSigningKeys: "rotateSigningKeys",
  signCheckpoint: "signCheckpoint",
} as const;

export const SEARCH_ATTRIBUTES = {
  tenant: defineSearchAttributeKey("SignetTenant", "KEYWORD_LIST"),
  endpoint: defineSearchAttributeKey("SignetEndpoint", "KEYWORD_LIST"),
  delivery: defineSearchAttributeKey("SignetDelivery", "KEYWORD_LIST"),
  state: defineSearchAttributeKey("SignetState", "KEYWORD"),
  open: defineSearchAttributeKey("SignetOpen", "INT"),
  attempt: defineSearchAttributeKey("SignetAttempt", "INT"),
} as const;

/** Argument of the signals: which members (absent: all of the carrier) and who asks. */
export interface MemberSignal {
  readonly delivery_ids?: readonly string[];
  readonly by?: string;
}

/** Dead letters get a fresh cycle of 17 attempts under a new carrier. */
export const replaySignal = defineSignal<[MemberSignal?]>("replay");
/** The next attempt happens now and uses its slot; later instants stay. */
export const attemptNowSignal = defineSignal<[MemberSignal?]>("attemptNow");
/** No further attempts. */
export const cancelSignal = defineSignal<[MemberSignal?]>("cancel");
/** Internal: these members were moved in the database and are not this carrier's any more. */
export const releaseSignal = defineSignal<[MemberSignal?]>("release");

/** Where one member stands. */
export interface MemberStatus {
  readonly delivery_id: string;
  readonly state: "QUEUED" | "RETRYING" | "DEAD_LETTERED" | "DONE";
  /** Attempts that have ended in this cycle. */
  readonly attempts: number;
  readonly next_attempt_at: string | null;
  /** End of a dead letter's week. */
  readonly expires_at: string | null;
}

export interface DeliverStatus {
  readonly open: number;
  readonly members: readonly MemberStatus[];
}
export const statusQuery = defineQuery<DeliverStatus>("status");

/** A member's progress when a carrier starts in mid-cycle or continues as new; same order as `members`. */
export interface MemberProgress {
  /** Attempts that have ended. */
  readonly attempts: number;
  readonly phase: "RETRYING" | "DEAD_LETTERED";
  /** Unix milliseconds: of the next attempt, or of the end of the dead-letter week. */
  readonly due_ms: number;
  /** Its receiver asked to wait until then. */
  readonly not_earlier?: boolean;
  /** Place in the line of an endpoint with a rate limit: Unix milliseconds, and the limit per second. */
  readonly place?: readonly [atMs: number, rateLimit: number];
}

/** Input of `deliver`: shown in Temporal's UI, short in tests, safe to replay. */
export interface DeliverInput {
  readonly v: 1;
  /** 1 to 64. */
  readonly members: readonly Member[];
  /** 17 offsets from the first attempt, drawn by the starter. */
  readonly offsets_ms: readonly number[];
  readonly dead_letter_ms: number;
  /** The members are of several endpoints: who fails the first attempt leaves for a list of its own endpoint. */
  readonly mixed?: boolean;
  /** The endpoint was slow or failing lately: no local activity waits for it. */
  readonly slow?: boolean;
  /** Present when the first attempts lie behind: what to go on from. */
  readonly progress?: {
    /** Unix milliseconds that the offsets count from; null when no first attempt has been made. */
    readonly anchor_ms: number | null;
    readonly members: readonly MemberProgress[];
    /** Outcomes so far of members that are no longer listed. */
    readonly done?: DeliverResult;
  };
}

/** How a carrier's members ended. */
export interface DeliverResult {
  readonly delivered: number;
  readonly replayed: number;
  readonly cancelled: number;
  /** Carried on elsewhere. */
  readonly moved: number;
  readonly expired: number;
}

/** Failure type of a `deliver` of which a member expired unread in the dead-letter queue. */
export const DELIVERY_EXPIRED = "DELIVERY_EXPIRED";

export interface VerifyEndpointInput {
  readonly v: 1;
  readonly endpoint_id: string;
  readonly generation: number;
  /** Offsets of the pings from the first, in milliseconds. */
  readonly offsets_ms: readonly number[];
}

export interface VerifyEndpointResult {
  readonly outcome: "verified" | "exhausted" | "superseded";
  readonly pings: number;
}

export interface VerifyStatus {
  readonly pings: number;
  readonly next_ping_at: string | null;
}
export const verifyStatusQuery = defineQuery<VerifyStatus>("status");

/** The workflow id of an endpoint's verification run; a closed run's id is never used again. */
export function verifyWorkflowId(endpointId: string, generation: number): string {
  return `verify/${endpointId}/${generation}`;
}

/** Argument of the signals of `replayDeadLetters`: who asks. */
export interface ReplaySignal {
  readonly by?: string;
}

export const pauseSignal = defineSignal<[ReplaySignal?]>("pause");
export const resumeSignal = defineSignal<[ReplaySignal?]>("resume");
/** What was replayed stays so; the rest stays in the queue. */
export const cancelReplaySignal = defineSignal<[ReplaySignal?]>("cancel");
/** Internal: the job's row has changed. */
export const rowChangedSignal = defineSignal<[ReplaySignal?]>("rowChanged");
export const replayStatusQuery = defineQuery<ReplayJobStatus>("status");

/** Input of `replayDeadLetters`. What is to be replayed is listed in the database. */
export interface ReplayInput {
  readonly v: 1;
  readonly job_id: string;
  readonly rate_per_second: number;
  /** What is known of the job as the run begins. */
  readonly status: ReplayJobStatus;
  /** Events of a run before it is continued as new; for tests. */
  readonly history_max?: number;
}

export type ReplayJobResult = Omit<ReplayJobStatus, "position" | "held">;

/** The workflow id of a replay job; a closed run's id is never used again. */
export function replayWorkflowId(jobId: string): string {
  return `replay/${jobId}`;
}

/** Failure type of a `signCheckpoint` that found the log not to extend what was signed of it. */
export const CHECKPOINT_REFUSED = "CHECKPOINT_REFUSED";
