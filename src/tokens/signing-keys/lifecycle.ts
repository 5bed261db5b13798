/**
 * When a signing key is published and when it signs (security decisions A): NEXT, CURRENT, PREVIOUS, GONE. Everything
 * follows from the times that its row holds, so that a schedule that has stopped delays the making of new keys and
 * nothing else: a key that is due signs, one that is over is not published, whatever its row's state says.
 */

/** How long a key signs. */
export const SIGNING_PERIOD_MS = 2_592_000_000;
/** Least time that a key is published before it signs: longer than verifiers keep the key set. */
export const PUBLISHED_BEFORE_MS = 3_600_000;
/** Time that a key stays published after it has signed: its last tokens' 900 s, the key set's 300 s, and clocks. */
export const PUBLISHED_AFTER_MS = 3_600_000;
/** The next key is made so long before it is due, so that a schedule that stops for a day delays nothing. */
export const PREPARED_BEFORE_MS = 86_400_000;

export type SigningKeyState = "NEXT" | "CURRENT" | "PREVIOUS" | "GONE";

/** Times of a key, Unix milliseconds. */
export interface KeyTimes {
  readonly kid: string;
  /** When it begins to sign; may lie ahead. */
  readonly activatedAt: number;
  /** When it was replaced; null while nobody has written it down. */
  readonly retiredAt: number | null;
  /** Revoked keys are neither published nor used, from the instant on. */
  readonly revokedAt: number | null;
}

/** The state of every key at an instant, by kid. */
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

/** When the next key is to begin, or undefined while it is too early to make one. */
export function nextActivation(currentActivatedAt: number, nowMs: number): number | undefined {
  const dueAt = currentActivatedAt + SIGNING_PERIOD_MS;
  return nowMs < dueAt - PREPARED_BEFORE_MS ? undefined : Math.max(dueAt, nowMs + PUBLISHED_BEFORE_MS);
}
