/**
 * What a version of a client secret is worth at a moment (security decisions C). The truth is in its times: the stored
 * state is what has been written down so far, and may lag behind as long as nobody sweeps.
 */

/** Lengths of the rotation, in milliseconds. */
export interface RotationRules {
  /** From the acknowledgement of a version to the making of its successor. */
  readonly periodMs: number;
  /** How long a superseded version must not have been used to be over. */
  readonly quietMs: number;
  /** How long a version lasts after its successor was due, for requests without the registered certificate. */
  readonly maxOverlapMs: number;
  /** How long a version that fell out of use still yields its successor, over the registered certificate. */
  readonly rescueMs: number;
}

export type SecretVersionState = "PENDING" | "ACTIVE" | "RETIRING" | "RETIRED" | "REVOKED";

/** Why a version is over: nobody used it any more after its successor was acknowledged, or its time was up. */
export type RetirementReason = "quiet" | "age";

/** A version's stored state and times; Unix milliseconds. */
export interface SecretVersionTimes {
  readonly state: SecretVersionState;
  readonly issuedAt: number;
  readonly dueAt: number | null;
  readonly retireBy: number | null;
  /** When its successor was first used. */
  readonly supersededAt: number | null;
  readonly lastUsedAt: number | null;
  readonly retiredAt: number | null;
  readonly retiredReason: RetirementReason | null;
}

export interface Retirement {
  readonly at: number;
  readonly reason: RetirementReason;
}

/** When a superseded version was last seen at work. */
function lastLife({ issuedAt, supersededAt, lastUsedAt }: SecretVersionTimes): number {
  return Math.max(supersededAt ?? issuedAt, lastUsedAt ?? 0);
}

/** When and why the version ended for requests without the registered certificate; `undefined` while it has not. */
export function retirementOf(
  version: SecretVersionTimes,
  { quietMs }: RotationRules,
  nowMs: number,
): Retirement | undefined {
  const { state, issuedAt, retireBy, retiredAt, retiredReason } = version;
  if (state === "RETIRED") {
    return { at: retiredAt ?? issuedAt, reason: retiredReason ?? "quiet" };
  }
  if (state !== "ACTIVE" && state !== "RETIRING") {
    return undefined;
  }
  const aged = retireBy ?? Number.POSITIVE_INFINITY;
  const quiet = state === "RETIRING" ? lastLife(version) + quietMs : Number.POSITIVE_INFINITY;
  const at = Math.min(aged, quiet);
  return nowMs < at ? undefined : { at, reason: quiet < aged ? "quiet" : "age" };
}

/** The first moment at which a version that fell out of use yields nothing any more, whatever comes with it. */
function rescueEnd(
  { at, reason }: Retirement,
  lastUsedAt: number | null,
  { rescueMs }: RotationRules,
): number {
  // No version stops working by age alone (specification 5): only one that nobody used has an end.
  return reason === "age" ? Number.POSITIVE_INFINITY : Math.max(at, lastUsedAt ?? 0) + rescueMs;
}

/**
 * How a request with this version's secret is received: `good` to everybody; `aged` and `rescued` over the registered
 * certificate only, with a record of it; else `refused`.
 */
export type Admission = "good" | "aged" | "rescued" | "refused";

/** Judges one request with the version's secret. */
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
  if (!registeredCertificate || nowMs >= rescueEnd(retirement, version.lastUsedAt, rules)) {
    return "refused";
  }
  return retirement.reason === "age" ? "aged" : "rescued";
}

/** The state as people should see it, also where nothing has written it down yet. */
export function stateAt(
  version: SecretVersionTimes,
  rules: RotationRules,
  { nowMs, namesCertificate }: { readonly nowMs: number; readonly namesCertificate: boolean },
): SecretVersionState {
  // Without a successor in use, a version that has a certificate to come over is still the one that counts.
  if (version.state === "ACTIVE" && namesCertificate) {
    return "ACTIVE";
  }
  return retirementOf(version, rules, nowMs) === undefined ? version.state : "RETIRED";
}

/** Whether a successor is to be handed out with this version's next token. */
export function wantsSuccessor({ state, dueAt }: SecretVersionTimes, nowMs: number): boolean {
  return state !== "PENDING" && (state !== "ACTIVE" || (dueAt !== null && nowMs >= dueAt));
}

const DAY_MS = 86_400_000;
/** Days after the due date on which somebody is told that a successor has not come into use. */
const ALERT_DAYS = [7, 21, 38, 44] as const;
/** How often thereafter, for a client that works over its certificate and never changes. */
const ALERT_AGAIN_DAYS = 30;

/** How long a rotation has been due when it counts as overdue, in milliseconds. */
export const OVERDUE_MS = ALERT_DAYS[0] * DAY_MS;

/** The first moment after `nowMs` at which a rotation that is still not acknowledged is an alert. */
export function overdueAlertAfter(dueAt: number, nowMs: number): number {
  const days = (nowMs - dueAt) / DAY_MS;
  const [last] = ALERT_DAYS.slice(-1) as [number];
  const next = ALERT_DAYS.find((day) => day > days);
  const again = last + ALERT_AGAIN_DAYS * (Math.floor((days - last) / ALERT_AGAIN_DAYS) + 1);
  return dueAt + (next ?? again) * DAY_MS;
}
