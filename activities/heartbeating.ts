import { Context } from "@temporalio/activity";

/** Each heartbeat is a write in Temporal. One that is this late, on a busy machine, leaves half of the timeout. */
const HEARTBEAT_LATE_MS = 1_000;
const HEARTBEAT_MIN_MS = 1_000;

/**
 * Sends heartbeats until the work ends, so that a crashed worker is noticed within the activity's heartbeat timeout. Must
 * be called in the activity's first turn, while its context is available.
 */
export async function heartbeating<T>(work: () => Promise<T>): Promise<T> {
  const context = Context.current();
  const { heartbeatTimeoutMs = 0 } = context.info;
  const everyMs = Math.max(HEARTBEAT_MIN_MS, heartbeatTimeoutMs / 2 - HEARTBEAT_LATE_MS);
  const timer = setInterval(() => context.heartbeat(), everyMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
