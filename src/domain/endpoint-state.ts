/**
 * The life of an endpoint (security decisions H): which states there are, and what leads from one to another. Every
 * change of state in the service is one of these moves.
 */

/** States that a tenant sees (wire.md, Endpoints). */
export const ENDPOINT_STATES = ["PENDING", "ACTIVE", "DISABLED"] as const;
/** With that of a tombstone, which answers 404. */
export type EndpointState = (typeof ENDPOINT_STATES)[number] | "DELETED";

/** Why an endpoint is DISABLED: its tenant disabled it, nothing has reached it for too long, or it answered 410 Gone. */
export const DISABLED_REASONS = ["tenant", "failing", "gone"] as const;
export type DisabledReason = (typeof DISABLED_REASONS)[number];

/** Where an endpoint stands. */
export interface EndpointPlace {
  readonly state: EndpointState;
  readonly disabledReason: DisabledReason | null;
}

/** A step from some states to one. */
export interface EndpointMove {
  readonly from: readonly EndpointState[];
  readonly to: EndpointPlace;
  /** Counts the generation up: no answer to an earlier ping counts any more. */
  readonly newGeneration: boolean;
}

/** Every way from one state to another. */
export const ENDPOINT_MOVES = {
  /** A ping of its generation was acknowledged. */
  verify: { from: ["PENDING"], to: { state: "ACTIVE", disabledReason: null }, newGeneration: false },
  /** It has another URL, which has acknowledged nothing yet. A disabled endpoint is pinged when it is enabled. */
  redirect: {
    from: ["PENDING", "ACTIVE"],
    to: { state: "PENDING", disabledReason: null },
    newGeneration: true,
  },
  /** Its tenant wants it back: it is pinged like a new one. */
  enable: { from: ["DISABLED"], to: { state: "PENDING", disabledReason: null }, newGeneration: true },
  /** Its tenant wants no more of it; also of one that was disabled for failing, whose deliveries still go on. */
  disable: {
    from: ["PENDING", "ACTIVE", "DISABLED"],
    to: { state: "DISABLED", disabledReason: "tenant" },
    newGeneration: false,
  },
  /** No 2xx for so long that nobody can be there. */
  fail: { from: ["ACTIVE"], to: { state: "DISABLED", disabledReason: "failing" }, newGeneration: false },
  /** Its receiver answered a delivery with 410 Gone. */
  gone: { from: ["ACTIVE"], to: { state: "DISABLED", disabledReason: "gone" }, newGeneration: false },
  /** A tombstone stays for a while. */
  delete: {
    from: ["PENDING", "ACTIVE", "DISABLED"],
    to: { state: "DELETED", disabledReason: null },
    newGeneration: true,
  },
} as const satisfies Readonly<Record<string, EndpointMove>>;

export type EndpointMoveName = keyof typeof ENDPOINT_MOVES;

/** Whether a move leads on from where an endpoint stands; not when it is there already, unless it is pinged anew. */
export function mayMove(name: EndpointMoveName, { state, disabledReason }: EndpointPlace): boolean {
  const { from, to, newGeneration }: EndpointMove = ENDPOINT_MOVES[name];
  const there = state === to.state && disabledReason === to.disabledReason;
  return from.includes(state) && (newGeneration || !there);
}

/** What becomes of a delivery whose attempt is due. */
export type DueStep = "send" | "wait" | "dead-letter" | "cancel";

/**
 * What to do with a delivery to an endpoint. One that was disabled for failing still gets what was begun for it, all 17
 * attempts; a tenant's own wish counts at once, and so does a receiver's 410.
 *
 * @param verifying whether pings of the endpoint are still to come
 * @param attempt from 1
 */
export function stepWhenDue(
  { state, disabledReason }: EndpointPlace,
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
  return disabledReason === "failing" && attempt > 1 ? "send" : "dead-letter";
}
