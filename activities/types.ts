/**
 * What activities take and return: plain data that ends up in workflow histories. Ids and numbers only; no payload,
 * secret or URL (docs/decisions/0002).
 */

/** One delivery of a list, with the epoch under which its carrier may send it (the fence, architecture 3). */
export interface Member {
  readonly id: string;
  readonly epoch: number;
}

/** Attempts some members of a list. Members of one call are at the same attempt. */
export interface AttemptInput {
  readonly members: readonly Member[];
  /** 1 to 17. */
  readonly attempt: number;
  /** The carrier's schedule: attempt, the one after it and the one after that are looked up in it. */
  readonly offsets_ms: readonly number[];
  /** Unix milliseconds that the schedule counts from; null at the first attempt, which then sets it. */
  readonly anchor_ms: number | null;
  /** When this attempt was due, Unix milliseconds; null at the first. Lateness shifts the rest of the schedule. */
  readonly due_ms: number | null;
  readonly dead_letter_ms: number;
  /** Who fails leaves this carrier: its row goes back to the dispatcher, for a list of its own endpoint. */
  readonly part?: boolean;
  /** Members that have a place in the line of an endpoint with a rate limit. */
  readonly places?: readonly IndexedReservation[];
}

/** Milliseconds after {@link AttemptResult.ended_at}, with the member's index in the input. */
export type IndexedDelay = readonly [index: number, delayMs: number];

/**
 * A member's place in the line of an endpoint with a rate limit: when its attempt may start, Unix milliseconds, and the
 * limit that says so, attempts per second.
 */
export type IndexedReservation = readonly [index: number, atMs: number, rateLimit: number];

/**
 * Outcomes by index into the input's members. Only exceptions are listed: who is not named was delivered.
 */
export interface AttemptResult {
  /** Unix milliseconds. */
  readonly started_at: number;
  readonly ended_at: number;
  /** Failed; the next attempt is due so long after `ended_at`. */
  readonly failed?: readonly IndexedDelay[];
  /** Of those that failed: who may not be attempted before it is due, because its receiver asked to wait. */
  readonly not_earlier?: readonly number[];
  /** Failed for the 17th time, or parked because the tenant disabled the endpoint; dead letters now. */
  readonly dead?: readonly number[];
  /** Not this carrier's any more: replayed, cancelled or moved. */
  readonly moved?: readonly number[];
  /** No answer within the first second; the request goes on, `settle` learns how it ends. */
  readonly unsettled?: readonly number[];
  /** Not attempted: the endpoint had no slot. To be tried again so long after `ended_at`; that is no attempt. */
  readonly postponed?: readonly IndexedDelay[];
  /** Of those that are postponed: who has got a place, to be brought along when it comes again. */
  readonly places?: readonly IndexedReservation[];
}

/** Members named by index that an operator's signal speaks of. */
export interface MembersInput {
  readonly members: readonly Member[];
  /** Who asked, as the signal says; goes to the log. */
  readonly by?: string;
}

/** Which members the change applied to; the others were not in a state that allows it, or not this carrier's. */
export interface MembersResult {
  readonly changed: readonly number[];
}

export interface ExpireResult {
  readonly expired: readonly number[];
  /** Still dead letters, to be asked again so many milliseconds later. */
  readonly later?: readonly IndexedDelay[];
}

/** Activities of the `deliver` workflow. */
export interface DeliverActivities {
  /** First attempts, in a local activity: waits at most a second for answers. */
  readonly attemptFirst: (input: AttemptInput) => Promise<AttemptResult>;
  /** Learns how unanswered first attempts ended; sends again only where the lease has run out. */
  readonly settle: (input: AttemptInput) => Promise<AttemptResult>;
  /** Retries: waits for every outcome. */
  readonly attempt: (input: AttemptInput) => Promise<AttemptResult>;
  /** Dead letters go back to the outbox with a fresh cycle. */
  readonly replay: (input: MembersInput) => Promise<MembersResult>;
  readonly cancel: (input: MembersInput) => Promise<MembersResult>;
  readonly expire: (input: MembersInput) => Promise<ExpireResult>;
}

export interface PingInput {
  readonly endpoint_id: string;
  readonly generation: number;
  /** 1 for the first ping of this run. */
  readonly attempt: number;
  /** Unix milliseconds of the ping after this one, null when this is the last. */
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
  /** Idempotency keys forgotten. */
  readonly keys: number;
  /** Finished deliveries of earlier days removed. */
  readonly rows: number;
  /** Revocations of single tokens forgotten. */
  readonly revocations: number;
}

/** Activities of the `purgeExpired` workflow. */
export interface PurgeActivities {
  readonly purge: () => Promise<PurgeResult>;
}

/** How many of each a sweep of the rotation has written down. */
export interface RotateResult {
  readonly due: number;
  readonly retired: number;
  readonly rescues_ended: number;
  readonly delivered: number;
  readonly overdue: number;
  readonly revoked: number;
}

/** Activities of the `rotateCredentials` workflow. */
export interface RotateActivities {
  readonly rotate: () => Promise<RotateResult>;
}

/** Key ids of what was done; they are public. */
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
  /** Entries under the newest checkpoint. */
  readonly size: number;
  /** Its number. */
  readonly seq: number;
  /** False: nothing was added since. */
  readonly signed: boolean;
}

/** Activities of the `signCheckpoint` workflow. */
export interface CheckpointActivities {
  readonly sign: () => Promise<SignCheckpointResult>;
}

/** How far a replay job is. */
export interface ReplayJobStatus {
  readonly state: "RUNNING" | "PAUSED" | "COMPLETED" | "CANCELLED";
  readonly total: number;
  readonly done: number;
  readonly failed: number;
  readonly skipped: number;
  /** Items up to here have their result. */
  readonly position: number;
  /** The tenant's deliveries wait, and so does the job. */
  readonly held?: boolean;
}

export interface ReplayPageInput {
  readonly job_id: string;
  /** The position that the caller knows of: a page that was done already is not done again. */
  readonly after: number;
  /** Most items. */
  readonly size: number;
}

export interface ChangeReplayInput {
  readonly job_id: string;
  readonly to: "RUNNING" | "PAUSED" | "CANCELLED";
  /** Who asked, as the signal says; goes to the log. */
  readonly by?: string;
}

/** Activities of the `replayDeadLetters` workflow. */
export interface ReplayActivities {
  /** Replays the next items of a running job, in one transaction; one that does not run is looked at only. */
  readonly replayPage: (input: ReplayPageInput) => Promise<ReplayJobStatus>;
  readonly changeReplay: (input: ChangeReplayInput) => Promise<ReplayJobStatus>;
}
