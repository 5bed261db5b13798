/** Decides whether a loaded delivery may be sent now. */
import type { Pool } from "#database/pool.ts";
import {
  type AttemptKey,
  deferDelivery,
  type LoadedDelivery,
  type ParkedDelivery,
  parkDelivery,
} from "#database/repositories/webhooks/attempts.ts";
import type { Clock } from "#domain/clock.ts";
import { stepWhenDue } from "#domain/endpoint-state.ts";
import { countEnded } from "./delivery-metrics.ts";
import type { AttemptPlan, MemberOutcome } from "./member-outcome.ts";

/** The reconciler notices the release of a held tenant far sooner. */
const HELD_PAUSE_MIN_MS = 30_000;
/** Most endpoints acknowledge their ping immediately. */
const VERIFYING_PAUSE_MIN_MS = 5_000;
const PAUSE_MAX_MS = 900_000;

/**
 * Returns the outcome if the content is erased, the tenant is held or the endpoint does not accept the attempt;
 * undefined if the attempt may be sent. Writes the consequence for the delivery first.
 */
export async function blockedOutcome(
  { pool, clock }: { readonly pool: Pool; readonly clock: Clock },
  { key, plan }: { readonly key: AttemptKey; readonly plan: AttemptPlan },
  delivery: LoadedDelivery,
): Promise<MemberOutcome | undefined> {
  const {
    endpoint_state: state,
    disabled_reason,
    held_at: heldAt,
    verifying_since: verifyingSince,
  } = delivery;
  const nowMs = clock.now();
  /** Takes a delivery that cannot be sent out of the schedule. */
  const park = async (to: ParkedDelivery["to"], reason: ParkedDelivery["reason"]): Promise<MemberOutcome> => {
    const expiresAt = new Date(nowMs + plan.deadLetterMs);
    const leaves = to === "DEAD_LETTERED" && plan.leaves(delivery.endpoint_id);
    if (await parkDelivery(pool, { ...key, to, reason, now: new Date(nowMs), expiresAt, leaves })) {
      countEnded(to);
    }
    return { kind: to === "CANCELLED" || leaves ? "moved" : "dead" };
  };
  if (isErased(delivery)) {
    return await park("CANCELLED", "content_erased");
  }
  if (heldAt !== null) {
    return { kind: "postponed", dueMs: nowMs + pauseMs(nowMs - heldAt.getTime(), HELD_PAUSE_MIN_MS) };
  }
  const step = stepWhenDue({ state, disabled_reason }, verifyingSince !== null, plan.attempt);
  if (step === "cancel") {
    return await park("CANCELLED", null);
  }
  if (step === "dead-letter") {
    return await park("DEAD_LETTERED", "endpoint_disabled");
  }
  if (step === "wait" && verifyingSince !== null) {
    const dueMs = nowMs + pauseMs(nowMs - verifyingSince.getTime(), VERIFYING_PAUSE_MIN_MS);
    await deferDelivery(pool, key, new Date(dueMs));
    return { kind: "postponed", dueMs };
  }
  return undefined;
}

/** Whether the content, or the key to decrypt it, is gone. */
function isErased({ data, content_bytes: bytes, data_key: dataKey }: LoadedDelivery): boolean {
  return (data === null && bytes === null) || dataKey === "";
}

/**
 * Returns the pause before checking a delivery that does not wait for its receiver. Longer waits are checked less
 * often.
 */
function pauseMs(forMs: number, minimumMs: number): number {
  return Math.min(Math.max(forMs / 2, minimumMs), PAUSE_MAX_MS);
}
