/**
 * Public interface of the workflows: names, inputs, signals, queries, search attributes. Everything here is public
 * API (contract 12) and stays in histories for up to ten days.
 */
import { defineSearchAttributeKey } from "@temporalio/common";
import { defineQuery, defineSignal, defineUpdate } from "@temporalio/workflow";
import type { Member, ReplayJobStatus } from "#activities/types.ts";

export const TASK_QUEUES = {
  /** Workflows of deliveries, and first attempts to healthy endpoints. */
  deliveries: "signet-deliveries",
  /** Retries, unanswered first attempts, slow and failing endpoints. */
  slow: "signet-deliveries-slow",
  /** Verifications. Receivers that hang take slots of this queue only. */
  verification: "signet-verification",
  /** Bulk replay, upkeep, and verifications that started before they had a queue. */
  control: "signet-control",
} as const;

export const WORKFLOW_TYPES = {
  deliver: "deliver",
  /** Dead letters of one endpoint, until each is replayed, cancelled or expired. */
  deadLetter: "deadLetter",
  verifyEndpoint: "verifyEndpoint",
  replayDeadLetters: "replayDeadLetters",
  replayDeliveries: "replayDeliveries",
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
  /** Members in the dead-letter queue. */
  dead: defineSearchAttributeKey("SignetDead", "INT"),
  /** When the first of them expires. */
  expires: defineSearchAttributeKey("SignetExpires", "DATETIME"),
} as const;

/**
 * Argument of the signals and Updates: the members, who requests the change, and why. By default all members of the
 * carrier, unless they belong to several endpoints.
 */
export interface MemberSignal {
  readonly delivery_ids?: readonly string[];
  readonly by?: string;
  readonly reason?: string;
}

/**
 * Why a member was not changed: `ended`, `not_carried` (by this workflow), `not_in_queue` (not a dead letter), `in_queue`
 * (a dead letter: replay it), `expired`, `tenant_held`, `endpoint_disabled`, `endpoint_unavailable`, `failed` (try again).
 */
export interface Refusal {
  readonly id: string;
  readonly reason: string;
}

/** Answer of the Updates. */
export interface MemberAnswer {
  readonly changed: readonly string[];
  readonly refused: readonly Refusal[];
}

/** Dead letters start a new cycle of 17 attempts under a new carrier. */
export const replaySignal = defineSignal<[MemberSignal?]>("replay");
/** The next attempt happens now and is used up. Later attempts keep their times. */
export const attemptNowSignal = defineSignal<[MemberSignal?]>("attemptNow");
/** No further attempts. */
export const cancelSignal = defineSignal<[MemberSignal?]>("cancel");
/** The signals as Updates, whose caller waits for the answer. */
export const replayUpdate = defineUpdate<MemberAnswer, [MemberSignal]>("replay");
export const attemptNowUpdate = defineUpdate<MemberAnswer, [MemberSignal]>("attemptNow");
export const cancelUpdate = defineUpdate<MemberAnswer, [MemberSignal]>("cancel");
/** Internal: these members were moved in the database and no longer belong to this carrier. */
export const releaseSignal = defineSignal<[MemberSignal?]>("release");

/** State of one member. */
export interface MemberStatus {
  readonly delivery_id: string;
  readonly state: "QUEUED" | "RETRYING" | "DEAD_LETTERED" | "DONE";
  /** Number of completed attempts in this cycle. */
  readonly attempts: number;
  readonly next_attempt_at: string | null;
  /** Status of the last attempt, or what kept it away; null before the first. */
  readonly last_answer: string | null;
  /** End of a dead letter's week. */
  readonly expires_at: string | null;
}

export interface DeliverStatus {
  readonly open: number;
  readonly members: readonly MemberStatus[];
}
export const statusQuery = defineQuery<DeliverStatus>("status");

/** Progress of a member when a carrier starts in mid-cycle or continues as new, in the order of `members`. */
export interface MemberProgress {
  /** Number of completed attempts. */
  readonly attempts: number;
  readonly phase: "RETRYING" | "DEAD_LETTERED";
  /** Time of the next attempt, or of the end of the dead-letter week, in Unix milliseconds. */
  readonly due_ms: number;
  /** Whether its receiver requested a wait until then. */
  readonly not_earlier?: boolean;
  /** How the last attempt was answered. */
  readonly last?: string;
  /** Reservation in a rate-limit queue: Unix milliseconds, and the limit per second. */
  readonly place?: readonly [atMs: number, rateLimit: number];
}

/** A request that a run has not handled. */
export interface QueuedRequest {
  readonly kind: "replay" | "attemptNow" | "cancel" | "release";
  readonly input: MemberSignal;
  /** Why the input means nothing. */
  readonly problem?: string;
}

/** What a run leaves to the one that continues it. */
export interface Continued {
  /** What became of the last request. */
  readonly last_request?: string;
  /** Signals that are still to be handled. */
  readonly requests?: readonly QueuedRequest[];
}

/** Input of `deliver`. Shown in Temporal's UI, short in tests, safe to replay. */
export interface DeliverInput extends Continued {
  readonly v: 1;
  /** 1 to 64. */
  readonly members: readonly Member[];
  /** 17 offsets from the first attempt, drawn by the starter, in milliseconds. */
  readonly offsets_ms: readonly number[];
  readonly dead_letter_ms: number;
  /**
   * The members belong to several endpoints. A member that fails its first attempt leaves for a list of its own
   * endpoint.
   */
  readonly mixed?: boolean;
  /** The endpoint was recently slow or failing, so no local activity waits for it. */
  readonly slow?: boolean;
  /** Present after the first attempts: the state to continue from. */
  readonly progress?: {
    /** Start of the offsets, in Unix milliseconds; null before the first attempt. */
    readonly anchor_ms: number | null;
    readonly members: readonly MemberProgress[];
    /** Outcomes of members that are no longer listed. */
    readonly done?: DeliverResult;
  };
}

/**
 * A dead letter in the input of `deadLetter`, which lists up to 1,000. Its week ends in Unix milliseconds. Last is how the
 * last attempt was answered; absent without one.
 */
export type Letter = readonly [
  id: string,
  epoch: number,
  attempts: number,
  expiresMs: number,
  lastAnswer?: string,
];

/** Input of `deadLetter`: a `deliver` continues as this when only dead letters are left. All belong to one endpoint. */
export interface DeadLetterInput extends Continued {
  readonly v: 1;
  readonly letters: readonly Letter[];
  readonly dead_letter_ms: number;
  /** Outcomes of members that are no longer listed. */
  readonly done?: DeliverResult;
}

/** Outcomes of a carrier's members. */
export interface DeliverResult {
  readonly delivered: number;
  readonly replayed: number;
  readonly cancelled: number;
  /** Carried elsewhere. */
  readonly moved: number;
  readonly expired: number;
}

/** Failure type of a `deliver` with a member that expired in the dead-letter queue. */
export const DELIVERY_EXPIRED = "DELIVERY_EXPIRED";

export interface VerifyEndpointInput {
  /** 2: the first ping is a local activity. */
  readonly v: 1 | 2;
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

/** Returns the workflow id of an endpoint's verification run. The id of a closed run is never reused. */
export function verifyWorkflowId(endpointId: string, generation: number): string {
  return `verify/${endpointId}/${generation}`;
}

/** Argument of the signals of `replayDeadLetters` and `replayDeliveries`: who requests the change. */
export interface ReplaySignal {
  readonly by?: string;
}

export const pauseSignal = defineSignal<[ReplaySignal?]>("pause");
export const resumeSignal = defineSignal<[ReplaySignal?]>("resume");
/** Replayed items stay replayed; the rest stays as it is. */
export const cancelReplaySignal = defineSignal<[ReplaySignal?]>("cancel");
/** Internal: the job's row has changed. */
export const rowChangedSignal = defineSignal<[ReplaySignal?]>("rowChanged");
export const replayStatusQuery = defineQuery<ReplayJobStatus>("status");

/** Input of `replayDeadLetters` and `replayDeliveries`. The items to replay are listed in the database. */
export interface ReplayInput {
  readonly v: 1;
  readonly job_id: string;
  readonly rate_per_second: number;
  /** State of the job at the start of the run. */
  readonly status: ReplayJobStatus;
  /** Number of events before a run is continued as new; for tests. */
  readonly history_max?: number;
}

export type ReplayJobResult = Omit<ReplayJobStatus, "position" | "held">;

/** Returns the workflow id of a replay job. The id of a closed run is never reused. */
export function replayWorkflowId(jobId: string): string {
  return `replay/${jobId}`;
}

/** Failure type of a `signCheckpoint` if the log does not extend its last signed state. */
export const CHECKPOINT_REFUSED = "CHECKPOINT_REFUSED";
