/**
 * The life cycle of an endpoint (security decisions H): its states, and the moves between them. Every change of state
 * in the service is one of these moves.
 */

/** States visible to tenants (contract 3.2). */
export const ENDPOINT_STATES = ["PENDING", "ACTIVE", "DISABLED"] as const;
/** All states, including DELETED: a tombstone, which answers 404. */
export type EndpointState = (typeof ENDPOINT_STATES)[number] | "DELETED";

/** Why an endpoint is DISABLED: by its tenant, because it failed for too long, or because it answered 410 Gone. */
export const DISABLED_REASONS = ["tenant", "failing", "gone"] as const;
export type DisabledReason = (typeof DISABLED_REASONS)[number];

/** The state of an endpoint, with the reason if it is disabled. */
export interface EndpointPlace {
  readonly state: EndpointState;
  readonly disabled_reason: DisabledReason | null;
}

/** A transition from some states to one. */
export interface EndpointMove {
  readonly from: readonly EndpointState[];
  readonly to: EndpointPlace;
  /** Whether the generation increases. Answers to earlier pings then no longer count. */
  readonly newGeneration: boolean;
}

/** All transitions. */
export const ENDPOINT_MOVES = {
  /** The endpoint acknowledged a ping of its generation. */
  verify: { from: ["PENDING"], to: { state: "ACTIVE", disabled_reason: null }, newGeneration: false },
  /** The endpoint has a new URL, which is not verified yet. A disabled endpoint is pinged when it is enabled. */
  redirect: {
    from: ["PENDING", "ACTIVE"],
    to: { state: "PENDING", disabled_reason: null },
    newGeneration: true,
  },
  /** The tenant enables the endpoint. It is pinged like a new one. */
  enable: { from: ["DISABLED"], to: { state: "PENDING", disabled_reason: null }, newGeneration: true },
  /** The receiver of a paused stream of security events enables it again, at the URL that was verified. */
  resume: { from: ["DISABLED"], to: { state: "ACTIVE", disabled_reason: null }, newGeneration: false },
  /** The tenant disables the endpoint, even if it is already disabled as failing and its retries continue. */
  disable: {
    from: ["PENDING", "ACTIVE", "DISABLED"],
    to: { state: "DISABLED", disabled_reason: "tenant" },
    newGeneration: false,
  },
  /** The endpoint has returned no 2xx for too long. */
  fail: { from: ["ACTIVE"], to: { state: "DISABLED", disabled_reason: "failing" }, newGeneration: false },
  /** The receiver answered a delivery with 410 Gone. */
  gone: { from: ["ACTIVE"], to: { state: "DISABLED", disabled_reason: "gone" }, newGeneration: false },
  /** The endpoint becomes a tombstone, which is kept for a while. */
  delete: {
    from: ["PENDING", "ACTIVE", "DISABLED"],
    to: { state: "DELETED", disabled_reason: null },
    newGeneration: true,
  },
} as const satisfies Readonly<Record<string, EndpointMove>>;

export type EndpointMoveName = keyof typeof ENDPOINT_MOVES;

/** Whether a move applies to an endpoint. A move to the current state applies only if it starts new pings. */
export function mayMove(name: EndpointMoveName, { state, disabled_reason: reason }: EndpointPlace): boolean {
  const { from, to, newGeneration }: EndpointMove = ENDPOINT_MOVES[name];
  const there = state === to.state && reason === to.disabled_reason;
  return from.includes(state) && (newGeneration || !there);
}

/** What happens to a delivery whose attempt is due. */
export type DueStep = "send" | "wait" | "dead-letter" | "cancel";

/**
 * Returns what to do with a delivery to an endpoint. An endpoint that was disabled for failing still receives all 17
 * attempts of deliveries already begun. Disabling by the tenant and a 410 take effect at once.
 *
 * @param verifying whether further pings of the endpoint are pending
 * @param attempt number of the attempt, from 1
 */
export function stepWhenDue(
  { state, disabled_reason: reason }: EndpointPlace,
  verifying: boolean,
  attempt: number,
): DueStep {
  if (state === "ACTIVE") {
    return "send";
  }
  if (state === "DELETED") {
    return "cancel";
  }
  if (state === "PENDING") {
    return verifying ? "wait" : "dead-letter";
  }
  return reason === "failing" && attempt > 1 ? "send" : "dead-letter";
}
