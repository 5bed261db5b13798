/** Timeouts for promises. */

/** No answer arrived in time. It may still arrive later. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
}

/**
 * Returns the promise's outcome if it comes in time. Does not stop the work behind it.
 *
 * @throws NoAnswerError after `ms` milliseconds
 */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new NoAnswerError(`no answer within ${ms} ms`)), ms);
  });
  return await Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}
