/**
 * Inputs and results of activities: plain data that is stored in workflow histories. Ids and numbers only; no
 * payload, secret or URL (docs/decisions/0002).
 */

/** A delivery and the epoch under which its carrier may send it (the fence). */
export interface Member {
  readonly id: string;
  readonly epoch: number;
}

/** Input of an attempt for members of a list, all at the same attempt. */
export interface AttemptInput {
  readonly members: readonly Member[];
  /** 1 to 17. */
  readonly attempt: number;
  /** The carrier's schedule. The entries for this attempt and the next two are used. */
  readonly offsets_ms: readonly number[];
  /** Start of the schedule, in Unix milliseconds; null at the first attempt, which sets it. */
  readonly anchor_ms: number | null;
  /** When this attempt was due, in Unix milliseconds; null at the first. Lateness shifts the rest of the schedule. */
  readonly due_ms: number | null;
  readonly dead_letter_ms: number;
  /**
   * Whether a member that fails leaves this carrier. Its row returns to the dispatcher, for a list of its own
   * endpoint.
   */
  readonly part?: boolean;
  /** Members with a reservation in a rate-limit queue. */
  readonly places?: readonly IndexedReservation[];
}

/** Milliseconds after {@link AttemptResult.ended_at}, with the member's index in the input. */
export type IndexedDelay = readonly [index: number, delayMs: number];

/**
 * A failed member: its index in the input, and when its next attempt is due, in milliseconds after
 * {@link AttemptResult.ended_at}. If its answer came long before that, the third number says how many milliseconds.
 */
export type FailedMember = readonly [index: number, delayMs: number, answeredMsBefore?: number];

/**
 * A member's reservation in a rate-limit queue: the earliest start of its attempt, in Unix milliseconds, and the
 * underlying limit, in attempts per second.
 */
export type IndexedReservation = readonly [index: number, atMs: number, rateLimit: number];

/** Outcomes by index into the input's members. Only exceptions are listed; all other members were delivered. */
export interface AttemptResult {
  /** Unix milliseconds. */
  readonly started_at: number;
  readonly ended_at: number;
  readonly failed?: readonly FailedMember[];
  /**
   * How failed and dead members were answered: a status, or what kept it away (`timeout`, `dns` …), with their indexes.
   * Without indexes: all of them.
   */
  readonly answers?: readonly (readonly [answer: string, ...indexes: readonly number[]])[];
  /** Failed members that must not be attempted early, because their receiver requested the wait. */
  readonly not_earlier?: readonly number[];
  /** Members that are dead letters now: failed for the 17th time, or the tenant disabled the endpoint. */
  readonly dead?: readonly number[];
  /** Members that no longer belong to this carrier: replayed, cancelled or moved. */
  readonly moved?: readonly number[];
  /** Members without a response in the first second. Their request continues, and `settle` gets its result. */
  readonly unsettled?: readonly number[];
  /**
   * Members that were not attempted because the endpoint had no slot, with the delay of the next try after
   * `ended_at`.
   */
  readonly postponed?: readonly IndexedDelay[];
  /** Reservations of postponed members, to be passed with their next try. */
  readonly places?: readonly IndexedReservation[];
}

/** Members that an operator's request names, by index. */
export interface MembersInput {
  readonly members: readonly Member[];
  /** Who requested it and why, as the request says; goes to the logs. */
  readonly by?: string;
  readonly reason?: string;
}

/** Members that were changed, or do not belong to this carrier any more; and why the others were not. */
export interface MembersResult {
  readonly changed: readonly number[];
  readonly refused?: readonly (readonly [index: number, reason: string])[];
}

export interface ExpireResult {
  readonly expired: readonly number[];
  /** Members that are still dead letters, with the delay of the next check in milliseconds. */
  readonly later?: readonly IndexedDelay[];
}

/** Activities of the `deliver` workflow. */
export interface DeliverActivities {
  /** Makes first attempts in a local activity. Waits at most a second for responses. */
  readonly attemptFirst: (input: AttemptInput) => Promise<AttemptResult>;
  /** Gets the results of unanswered first attempts. Sends again only if the lease has expired. */
  readonly settle: (input: AttemptInput) => Promise<AttemptResult>;
  /** Makes retries. Waits for every outcome. */
  readonly attempt: (input: AttemptInput) => Promise<AttemptResult>;
  /** Returns dead letters to the outbox with a new cycle. */
  readonly replay: (input: MembersInput) => Promise<MembersResult>;
  readonly cancel: (input: MembersInput) => Promise<MembersResult>;
  /** Lets the dispatcher give unfinished deliveries another carrier. */
  readonly handBack: (input: MembersInput) => Promise<void>;
  /** Enters into the compliance log that the next attempts are made now. */
  readonly recordAttemptNow: (input: MembersInput) => Promise<MembersResult>;
  readonly expire: (input: MembersInput) => Promise<ExpireResult>;
}

export interface PingInput {
  readonly endpoint_id: string;
  readonly generation: number;
  /** 1 for the first ping of this run. */
  readonly attempt: number;
  /** Time of the next ping, in Unix milliseconds; null for the last. */
  readonly next_attempt_ms: number | null;
}

export interface PingResult {
  /** `superseded`: the endpoint was verified, changed, disabled or deleted meanwhile. */
  readonly outcome: "verified" | "failed" | "superseded";
}

/** Activities of the `verifyEndpoint` workflow. */
export interface VerifyActivities {
  readonly ping: (input: PingInput) => Promise<PingResult>;
}

export interface PurgeResult {
  /** Days whose partitions were dropped. */
  readonly days: number;
  /** Removed tables of idempotency keys. */
  readonly keys: number;
  /** Removed finished deliveries of earlier days. */
  readonly rows: number;
  /** Removed revocations of single tokens. */
  readonly revocations: number;
  /** Whether expired data is left. Results of earlier releases do not have it. */
  readonly more?: boolean;
}

/** Activities of the `purgeExpired` workflow. */
export interface PurgeActivities {
  readonly purge: () => Promise<PurgeResult>;
}

/** Numbers of changes that a rotation sweep recorded. */
export interface RotateResult {
  readonly due: number;
  readonly retired: number;
  readonly rescues_ended: number;
  readonly delivered: number;
  readonly overdue: number;
  readonly ended: number;
}

/** Activities of the `rotateCredentials` workflow. */
export interface RotateActivities {
  readonly rotate: () => Promise<RotateResult>;
}

/** Ids of the changed keys; they are public. */
export interface SigningKeyChanges {
  readonly created: readonly string[];
  readonly activated: readonly string[];
  readonly retired: readonly string[];
  readonly gone: readonly string[];
}

/** Activities of the `rotateSigningKeys` workflow. */
export interface SigningKeyActivities {
  readonly advanceSigningKeys: () => Promise<SigningKeyChanges>;
}

export interface SignCheckpointResult {
  /** Number of entries under the newest checkpoint. */
  readonly size: number;
  /** Number of the checkpoint. */
  readonly seq: number;
  /** False if nothing was added since the last checkpoint. */
  readonly signed: boolean;
}

/** Activities of the `signCheckpoint` workflow. */
export interface CheckpointActivities {
  readonly sign: () => Promise<SignCheckpointResult>;
}

/** Progress of a replay job. */
export interface ReplayJobStatus {
  readonly state: "RUNNING" | "PAUSED" | "COMPLETED" | "CANCELLED";
  readonly total: number;
  readonly done: number;
  readonly failed: number;
  readonly skipped: number;
  /** Items up to this position have a result. */
  readonly position: number;
  /** Whether the job waits because the tenant's deliveries are held. */
  readonly held?: boolean;
  /** Whether items are still being listed, so that `total` grows. */
  readonly listing?: boolean;
}

export interface ReplayPageInput {
  readonly job_id: string;
  /** Last position that the caller knows of. A completed page is not repeated. */
  readonly after: number;
  /** Maximum number of items. */
  readonly size: number;
}

export interface ChangeReplayInput {
  readonly job_id: string;
  readonly to: "RUNNING" | "PAUSED" | "CANCELLED";
  /** Who requested it, as the signal says; goes to the log. */
  readonly by?: string;
}

/** Activities of the workflows `replayDeadLetters` and `replayDeliveries`. */
export interface ReplayActivities {
  /** Replays the next items of a running job in one transaction. Only reads a job that is not running. */
  readonly replayPage: (input: ReplayPageInput) => Promise<ReplayJobStatus>;
  /** The same for a job over deliveries in several states. */
  readonly replayDeliveriesPage: (input: ReplayPageInput) => Promise<ReplayJobStatus>;
  readonly changeReplay: (input: ChangeReplayInput) => Promise<ReplayJobStatus>;
}
