/**
 * The retry schedule (specification 8, architecture 3): 17 attempts in 72 hours; the elapsed time doubles from one
 * attempt to the next and the last falls at the end of the window. Pure: chance and time are arguments, so that the
 * starter draws a schedule once and the workflow only reads it.
 */

/** Failures in a row before an event becomes a dead letter (specification 6). */
export const ATTEMPT_MAX = 17;
/** The real window: 72 hours (specification 8). A scaled window scales the fixed times below too. */
export const RETRY_WINDOW_MS = 259_200_000;
/** Timers fire late, never early: this keeps the last attempt inside the window. */
const EARLY_MS = 1_000;
const JITTER_SHARE = 0.1;
const JITTER_MAX_MS = 900_000;
const TOGETHER_MIN_MS = 1_000;
const TOGETHER_SHARE = 0.02;
const LATE_SHARE = 0.1;
/** The longest wait that a receiver is granted: 24 hours. */
export const RETRY_AFTER_MAX_MS = 86_400_000;
/** What an attempt takes of the last slot, in gaps before the second attempt: 10 s for its request, then a rest. */
const LAST_SLOT_GAPS = 2;

/** A number in [0, 1). */
export type Random = () => number;

function gridMs(windowMs: number, attempt: number): number {
  return attempt === 1 ? 0 : windowMs / 2 ** (ATTEMPT_MAX - attempt);
}

/**
 * Draws a schedule: 17 offsets in whole milliseconds from the first attempt, the first 0, rising.
 *
 * @param windowMs time from the first to the last attempt, in milliseconds
 */
export function drawOffsets(windowMs: number, random: Random): number[] {
  const scale = windowMs / RETRY_WINDOW_MS;
  const offsets = [0];
  for (let attempt = 2; attempt <= ATTEMPT_MAX; attempt += 1) {
    const grid = gridMs(windowMs, attempt);
    const gap = grid - gridMs(windowMs, attempt - 1);
    const jitter = random() * Math.min(JITTER_SHARE * gap, JITTER_MAX_MS * scale);
    offsets.push(Math.max(offsets[attempt - 2] ?? 0, Math.floor(grid - EARLY_MS * scale - jitter)));
  }
  return offsets;
}

/** The gap before an attempt (2 to 17), in milliseconds. */
export function gapBefore(offsets: readonly number[], attempt: number): number {
  return Math.max(0, offsetOf(offsets, attempt) - offsetOf(offsets, attempt - 1));
}

function offsetOf(offsets: readonly number[], attempt: number): number {
  const offset = offsets[attempt - 1];
  if (offset === undefined) {
    throw new RangeError(`the schedule has no attempt ${attempt}`);
  }
  return offset;
}

/** What a failed attempt means for the next one. Instants are Unix milliseconds. */
export interface FailedAttempt {
  readonly offsets: readonly number[];
  /** Start of the first attempt of this cycle, plus every shift since. */
  readonly anchorMs: number;
  /** The attempt that failed, 1 to 16. */
  readonly attempt: number;
  readonly endedAtMs: number;
  /** The receiver's Retry-After, counted from the end of the attempt. */
  readonly retryAfterMs: number | null;
}

/** When the next attempt is due. */
export interface NextDue {
  /** Unix milliseconds. */
  readonly dueMs: number;
  /** Retry-After has moved it: nothing may bring it forward but an operator. */
  readonly asked: boolean;
}

/**
 * When the next attempt is due: at its point of the grid, but not sooner after the end of this one than half the gap, so
 * that a receiver that hangs still gets a pause. Retry-After moves it later, by 24 hours at most.
 *
 * Nothing moves an attempt past the last slot, the point of the 17th. What is moved there leaves room for the attempts
 * that are still to come after it, so that all 17 lie within the window (docs/decisions/0026).
 */
export function nextDueMs({ offsets, anchorMs, attempt, endedAtMs, retryAfterMs }: FailedAttempt): NextDue {
  const next = attempt + 1;
  const gridMs = anchorMs + offsetOf(offsets, next);
  const plannedMs = Math.max(gridMs, endedAtMs + gapBefore(offsets, next) / 2);
  const askedMs = retryAfterMs === null ? 0 : endedAtMs + Math.min(retryAfterMs, RETRY_AFTER_MAX_MS);
  const roomMs = (ATTEMPT_MAX - next) * LAST_SLOT_GAPS * gapBefore(offsets, 2);
  const latestMs = Math.max(gridMs, anchorMs + offsetOf(offsets, ATTEMPT_MAX) - roomMs);
  if (endedAtMs >= latestMs) {
    // A scaled window that requests outlive: nothing fits into it any more, pauses still count.
    return { dueMs: Math.ceil(plannedMs), asked: false };
  }
  return {
    dueMs: Math.ceil(Math.min(Math.max(plannedMs, askedMs), latestMs)),
    asked: askedMs > plannedMs && plannedMs < latestMs,
  };
}

/**
 * How far the rest of the grid moves when an attempt starts late through an outage of ours: by the whole lateness if
 * it is more than a tenth of the gap before the attempt, else not at all, so that the 17 are not burned at once.
 */
export function shiftForLateness(offsets: readonly number[], attempt: number, lateMs: number): number {
  return attempt > 1 && lateMs > LATE_SHARE * gapBefore(offsets, attempt) ? lateMs : 0;
}

/** Members of one list whose attempts are due within this many milliseconds of each other are attempted together. */
export function togetherMs(offsets: readonly number[], attempt: number): number {
  const scale = offsetOf(offsets, ATTEMPT_MAX) / RETRY_WINDOW_MS;
  const share = attempt > 1 ? TOGETHER_SHARE * gapBefore(offsets, attempt) : 0;
  return Math.max(TOGETHER_MIN_MS * Math.min(1, scale), share);
}
