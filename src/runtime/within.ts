/** Waiting for no longer than it is worth. */

/** There was no answer in time; whether there will be one is not known. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
}

/**
 * The promise's outcome, if it comes in time; what it stands for is not stopped.
 *
 * @throws NoAnswerError after so many milliseconds
 */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new NoAnswerError(`no answer within ${ms} ms`)), ms);
  });
  return await Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}
