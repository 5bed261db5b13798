import { Context } from "@temporalio/activity";

/** A quarter of the shortest heartbeat timeout in workflows/. */
const HEARTBEAT_MS = 1_000;

/**
 * Beats until the work ends, so that a worker that dies is noticed within seconds. Called in the activity's first turn,
 * in which its context is known.
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
