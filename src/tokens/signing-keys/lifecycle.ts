/**
 * The life cycle of a signing key (security decisions A): NEXT, CURRENT, PREVIOUS, GONE. The state follows from the
 * times in the row, whatever state the row stores: a due key signs, and an ended key is not published. If the schedule
 * stops, only the creation of new keys is delayed.
 */

/** How long a key signs, in milliseconds. */
export const SIGNING_PERIOD_MS = 2_592_000_000;
/** Age of a signing key at which its schedule is overdue: the schedule may be late by a day. In milliseconds. */
export const SIGNING_AGE_MAX_MS = SIGNING_PERIOD_MS + 86_400_000;
/** Minimum time that a key is published before it signs. It exceeds the verifiers' cache time of the key set. */
export const PUBLISHED_BEFORE_MS = 3_600_000;
/** How long a key stays published after signing: its last tokens' 900 s, the key set's 300 s, and clock skew. */
export const PUBLISHED_AFTER_MS = 3_600_000;
/** How long before its due time the next key is created. A schedule that stops for a day delays nothing. */
export const PREPARED_BEFORE_MS = 86_400_000;

export type SigningKeyState = "NEXT" | "CURRENT" | "PREVIOUS" | "GONE";

/** Times of a key, in Unix milliseconds. */
export interface KeyTimes {
  readonly kid: string;
  /** When it begins to sign; may be in the future. */
  readonly activatedAt: number;
  /** When it was replaced; null until that is stored. */
  readonly retiredAt: number | null;
  /** When it was revoked. From then on it is neither published nor used. */
  readonly revokedAt: number | null;
}

/** Returns the state of every key at an instant, by kid. */
export function statesAt(keys: readonly KeyTimes[], nowMs: number): ReadonlyMap<string, SigningKeyState> {
  const states = new Map<string, SigningKeyState>();
  let replacedAt: number | undefined;
  for (const key of keys.toSorted((left, right) => right.activatedAt - left.activatedAt)) {
    if (key.revokedAt !== null) {
      states.set(key.kid, "GONE");
    } else if (key.activatedAt > nowMs) {
      states.set(key.kid, "NEXT");
    } else if (replacedAt === undefined && key.retiredAt === null) {
      states.set(key.kid, "CURRENT");
      replacedAt = key.activatedAt;
    } else {
      const retiredAt = key.retiredAt ?? replacedAt ?? nowMs;
      states.set(key.kid, nowMs < retiredAt + PUBLISHED_AFTER_MS ? "PREVIOUS" : "GONE");
      replacedAt = key.activatedAt;
    }
  }
  return states;
}

/** Returns when the next key should begin to sign, or undefined if it is too early to create it. */
export function nextActivation(currentActivatedAt: number, nowMs: number): number | undefined {
  const dueAt = currentActivatedAt + SIGNING_PERIOD_MS;
  return nowMs < dueAt - PREPARED_BEFORE_MS ? undefined : Math.max(dueAt, nowMs + PUBLISHED_BEFORE_MS);
}
