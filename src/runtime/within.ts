/** Promises with an end: timeouts and signals. */
import type { Timer, Timers } from "#domain/clock.ts";

/** No answer arrived in time. It may still arrive later. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
}

/**
 * Returns the promise's outcome if it comes in time. Does not stop the work behind it.
 *
 * @throws NoAnswerError after `ms` milliseconds
 */
export async function within<T>(timers: Timers, ms: number, promise: Promise<T>): Promise<T> {
  let timer: Timer | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = timers.after(ms, () => reject(new NoAnswerError(`no answer within ${ms} ms`)));
  });
  return await Promise.race([promise, timeout]).finally(() => timers.cancel(timer));
}

/**
 * Returns the promise's outcome, or rejects with the signal's reason as soon as it is aborted. Does not stop the work
 * behind the promise.
 */
export async function unlessAborted<T>(signal: AbortSignal | undefined, promise: Promise<T>): Promise<T> {
  if (signal === undefined) {
    return await promise;
  }
  return await new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) {
      abort();
    }
    signal.addEventListener("abort", abort, { once: true });
    promise.finally(() => signal.removeEventListener("abort", abort)).then(resolve, reject);
  });
}
