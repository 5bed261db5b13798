import { Context } from "@temporalio/activity";

/** A quarter of the shortest heartbeat timeout in workflows/. */
const HEARTBEAT_MS = 1_000;

/**
 * Sends heartbeats until the work ends, so that a crashed worker is noticed within seconds. Must be called in the
 * activity's first turn, while its context is available.
 */
export async function heartbeating<T>(work: () => Promise<T>): Promise<T> {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(), HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
