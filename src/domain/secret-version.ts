/**
 * The validity of a version of a client secret at an instant (security decisions C). Its times decide. The stored
 * state may lag behind them until the next sweep.
 */

/** Durations of the rotation, in milliseconds. */
export interface RotationRules {
  /** Time from the acknowledgement of a version to the creation of its successor. */
  readonly periodMs: number;
  /** Time without use after which a superseded version ends. */
  readonly quietMs: number;
  /** How long a version lasts after its successor was due, for requests without the registered certificate. */
  readonly maxOverlapMs: number;
  /** How long a version that fell out of use still returns its successor, over the registered certificate. */
  readonly rescueMs: number;
}

export type SecretVersionState = "PENDING" | "ACTIVE" | "RETIRING" | "RETIRED" | "REVOKED";

/** Why a version ended: it was unused after its successor was acknowledged, or its time ran out. */
export type RetirementReason = "quiet" | "age";

/** A version's stored state and times; Unix milliseconds. */
export interface SecretVersionTimes {
  readonly state: SecretVersionState;
  readonly issued_at: number;
  readonly due_at: number | null;
  readonly retire_by: number | null;
  /** When its successor was first used. */
  readonly superseded_at: number | null;
  readonly last_used_at: number | null;
  readonly retired_at: number | null;
  readonly retired_reason: RetirementReason | null;
}

export interface Retirement {
  readonly at: number;
  readonly reason: RetirementReason;
}

/** Returns when a superseded version was last in use. */
function lastLife({ issued_at, superseded_at, last_used_at }: SecretVersionTimes): number {
  return Math.max(superseded_at ?? issued_at, last_used_at ?? 0);
}

/** Returns when and why the version ended without the registered certificate; `undefined` if it has not. */
export function retirementOf(
  version: SecretVersionTimes,
  { quietMs }: RotationRules,
  nowMs: number,
): Retirement | undefined {
  const { state, issued_at, retire_by, retired_at, retired_reason } = version;
  if (state === "RETIRED") {
    return { at: retired_at ?? issued_at, reason: retired_reason ?? "quiet" };
  }
  if (state !== "ACTIVE" && state !== "RETIRING") {
    return undefined;
  }
  const aged = retire_by ?? Number.POSITIVE_INFINITY;
  const quiet = state === "RETIRING" ? lastLife(version) + quietMs : Number.POSITIVE_INFINITY;
  const at = Math.min(aged, quiet);
  return nowMs < at ? undefined : { at, reason: quiet < aged ? "quiet" : "age" };
}

/** Returns the instant from which a version that fell out of use no longer returns its successor. */
function rescueEnd(
  { at, reason }: Retirement,
  lastUsedAt: number | null,
  { rescueMs }: RotationRules,
): number {
  // No version stops working by age alone (contract 5). Only an unused one ends.
  return reason === "age" ? Number.POSITIVE_INFINITY : Math.max(at, lastUsedAt ?? 0) + rescueMs;
}

/**
 * How a version's secret is accepted: `good` from everyone; `aged` and `rescued` only over the registered certificate,
 * and recorded; else `refused`.
 */
export type Admission = "good" | "aged" | "rescued" | "refused";

/** Decides on one request with the version's secret. */
export function admissionOf(
  version: SecretVersionTimes,
  rules: RotationRules,
  { nowMs, registeredCertificate }: { readonly nowMs: number; readonly registeredCertificate: boolean },
): Admission {
  if (version.state === "REVOKED") {
    return "refused";
  }
  const retirement = retirementOf(version, rules, nowMs);
  if (retirement === undefined) {
    return "good";
  }
  if (!registeredCertificate || nowMs >= rescueEnd(retirement, version.last_used_at, rules)) {
    return "refused";
  }
  return retirement.reason === "age" ? "aged" : "rescued";
}

/** Returns the state to display, even if it has not been stored yet. */
export function stateAt(
  version: SecretVersionTimes,
  rules: RotationRules,
  { nowMs, namesCertificate }: { readonly nowMs: number; readonly namesCertificate: boolean },
): SecretVersionState {
  // Until its successor is in use, a version with a registered certificate stays the active one.
  if (version.state === "ACTIVE" && namesCertificate) {
    return "ACTIVE";
  }
  return retirementOf(version, rules, nowMs) === undefined ? version.state : "RETIRED";
}

/** Whether this version's next token should come with a successor. */
export function wantsSuccessor({ state, due_at: dueAt }: SecretVersionTimes, nowMs: number): boolean {
  return state !== "PENDING" && (state !== "ACTIVE" || (dueAt !== null && nowMs >= dueAt));
}

const DAY_MS = 86_400_000;
/** Days after the due date on which an alert reports that the successor is not in use yet. */
const ALERT_DAYS = [7, 21, 38, 44] as const;
/** Days between later alerts, for a client that works over its certificate and never changes. */
const ALERT_AGAIN_DAYS = 30;

/** Time after the due date from which a rotation counts as overdue, in milliseconds. */
export const OVERDUE_MS = ALERT_DAYS[0] * DAY_MS;

/** Returns the first instant after `nowMs` at which a rotation that is still not acknowledged raises an alert. */
export function overdueAlertAfter(dueAt: number, nowMs: number): number {
  const days = (nowMs - dueAt) / DAY_MS;
  const [last] = ALERT_DAYS.slice(-1) as [number];
  const next = ALERT_DAYS.find((day) => day > days);
  const again = last + ALERT_AGAIN_DAYS * (Math.floor((days - last) / ALERT_AGAIN_DAYS) + 1);
  return dueAt + (next ?? again) * DAY_MS;
}
