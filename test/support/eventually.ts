/** Polls until a condition holds. */

const ASK_AGAIN_MS = 20;
/** Default patience: below the limit of a test (60 s), so that a failure says what was waited for. */
export const PATIENCE_MS = 50_000;

/** What can be waited for. Null is not: it may mean "not yet" or "done". */
export type Answer = object | string | number | boolean;

/**
 * Resolves with the first answer that is neither undefined nor false.
 *
 * @throws Error on timeout; its cause is the last error of the question, if any
 */
export async function eventually<T extends Answer>(
  question: () => Promise<T | undefined | false> | T | undefined | false,
  what: string,
  timeoutMs = PATIENCE_MS,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  for (;;) {
    try {
      const answer = await question();
      if (answer !== undefined && answer !== false) {
        return answer;
      }
    } catch (error) {
      cause = error;
    }
    if (performance.now() > deadline) {
      throw new Error(`timed out after ${timeoutMs} ms waiting for ${what}`, { cause });
    }
    await new Promise((resolve) => {
      setTimeout(resolve, ASK_AGAIN_MS);
    });
  }
}
