/** Waiting for a condition: asks until there is an answer. */
const ASK_AGAIN_MS = 20;
/** For a machine with many times its load: what does not come at all is told as well after this. */
const PATIENCE_MS = 90_000;

/**
 * Resolves with the first answer that is neither undefined nor false.
 *
 * @throws when there is none in time; the last error of the question, if it had one, is the cause
 */
export async function eventually<T>(
  question: () => Promise<T | undefined | false> | T | undefined | false,
  what: string,
  patienceMs = PATIENCE_MS,
): Promise<T> {
  const deadline = performance.now() + patienceMs;
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
      throw new Error(`waited ${patienceMs} ms in vain for ${what}`, { cause });
    }
    await new Promise((resolve) => {
      setTimeout(resolve, ASK_AGAIN_MS);
    });
  }
}
