import { Context } from "@temporalio/activity";

/** The share of its timeout after which a heartbeat follows. */
const HEARTBEAT_SHARE = 1 / 4;
const HEARTBEAT_MIN_MS = 1_000;

/**
 * Sends heartbeats until the work ends, so that a crashed worker is noticed within the activity's heartbeat timeout. Must
 * be called in the activity's first turn, while its context is available.
 */
export async function heartbeating<T>(work: () => Promise<T>): Promise<T> {
  const context = Context.current();
  const { heartbeatTimeoutMs = 0 } = context.info;
  const everyMs = Math.max(HEARTBEAT_MIN_MS, heartbeatTimeoutMs * HEARTBEAT_SHARE);
  const timer = setInterval(() => context.heartbeat(), everyMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
