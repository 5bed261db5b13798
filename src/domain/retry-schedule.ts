/**
 * The retry schedule (contract 8): 17 attempts in 72 hours. The elapsed time doubles from one
 * attempt to the next, and the last attempt falls at the end of the window. The functions are pure: randomness and
 * time are arguments. The starter draws a schedule once, and the workflow only reads it.
 */

/** Consecutive failures after which an event becomes a dead letter (contract 6). */
export const ATTEMPT_MAX = 17;
/** The real window: 72 hours (contract 8). A scaled window also scales the fixed times below. */
export const RETRY_WINDOW_MS = 259_200_000;
/** The same in hours, for texts. */
export const RETRY_WINDOW_HOURS = RETRY_WINDOW_MS / 3_600_000;
/** How long a dead letter can be replayed: 7 days (contract 8). */
export const DEAD_LETTER_MS = 604_800_000;
/** The same in days, for texts. */
export const DEAD_LETTER_DAYS = DEAD_LETTER_MS / 86_400_000;
/** Timers fire late, never early: this keeps the last attempt inside the window. */
const EARLY_MS = 1_000;
const JITTER_SHARE = 0.1;
const JITTER_MAX_MS = 900_000;
const TOGETHER_MIN_MS = 1_000;
const TOGETHER_SHARE = 0.02;
const LATE_SHARE = 0.1;
/** The longest wait that a receiver can request: 24 hours. */
export const RETRY_AFTER_MAX_MS = 86_400_000;
/** The share of the last slot per attempt, in gaps before the second attempt: 10 s for its request, then a pause. */
const LAST_SLOT_GAPS = 2;

/** A number in [0, 1). */
export type Random = () => number;

function gridMs(windowMs: number, attempt: number): number {
  return attempt === 1 ? 0 : windowMs / 2 ** (ATTEMPT_MAX - attempt);
}

/**
 * Draws a schedule: 17 ascending offsets from the first attempt in whole milliseconds, starting with 0.
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

/** Returns the gap before an attempt (2 to 17), in milliseconds. */
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

/** The failed attempt from which the next one is scheduled. Instants are Unix milliseconds. */
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
  /** Whether Retry-After moved it. Then only an operator may bring it forward. */
  readonly asked: boolean;
}

/**
 * Returns when the next attempt is due: at its point of the grid, but at least half the gap after the end of this one.
 * Thus a hanging receiver still gets a pause. Retry-After delays the attempt by 24 hours at most.
 *
 * No attempt moves past the last slot, the point of the 17th. An attempt that is moved there leaves room for the
 * attempts after it, so that all 17 lie within the window (docs/decisions/0026).
 */
export function nextDueMs({ offsets, anchorMs, attempt, endedAtMs, retryAfterMs }: FailedAttempt): NextDue {
  const next = attempt + 1;
  const gridMs = anchorMs + offsetOf(offsets, next);
  const plannedMs = Math.max(gridMs, endedAtMs + gapBefore(offsets, next) / 2);
  const askedMs = retryAfterMs === null ? 0 : endedAtMs + Math.min(retryAfterMs, RETRY_AFTER_MAX_MS);
  const roomMs = (ATTEMPT_MAX - next) * LAST_SLOT_GAPS * gapBefore(offsets, 2);
  const latestMs = Math.max(gridMs, anchorMs + offsetOf(offsets, ATTEMPT_MAX) - roomMs);
  if (endedAtMs >= latestMs) {
    // Requests outlived a scaled window, so no slot is left in it. Pauses still apply.
    return { dueMs: Math.ceil(plannedMs), asked: false };
  }
  return {
    dueMs: Math.ceil(Math.min(Math.max(plannedMs, askedMs), latestMs)),
    asked: askedMs > plannedMs && plannedMs < latestMs,
  };
}

/**
 * Returns how far the rest of the grid moves, in milliseconds, when our outage delays the start of an attempt. It moves
 * by the whole delay if that exceeds a tenth of the gap before the attempt. This keeps the 17 from running at once.
 */
export function shiftForLateness(offsets: readonly number[], attempt: number, lateMs: number): number {
  return attempt > 1 && lateMs > LATE_SHARE * gapBefore(offsets, attempt) ? lateMs : 0;
}

/** Returns the window, in milliseconds, within which due attempts of one list are sent together. */
export function togetherMs(offsets: readonly number[], attempt: number): number {
  const scale = offsetOf(offsets, ATTEMPT_MAX) / RETRY_WINDOW_MS;
  const share = attempt > 1 ? TOGETHER_SHARE * gapBefore(offsets, attempt) : 0;
  return Math.max(TOGETHER_MIN_MS * Math.min(1, scale), share);
}
