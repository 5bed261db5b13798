/** Waits for a test's child process: an ended one never answers. */
import type { ChildProcess } from "node:child_process";
import { eventually } from "./eventually.ts";

/**
 * Resolves with the first answer that is neither undefined nor false.
 *
 * @throws Error if the process ends without one, or on timeout
 */
export async function answerOf<T>(
  child: Pick<ChildProcess, "exitCode" | "signalCode">,
  question: () => Promise<T | undefined | false> | T | undefined | false,
  what: string,
): Promise<T> {
  const answer = await eventually(async () => {
    const ended = child.exitCode ?? child.signalCode;
    // Ask once more after the end: the last output may hold the answer.
    const found = await question();
    return found === undefined || found === false
      ? ended !== null && { ended, found: undefined }
      : { ended: null, found };
  }, what);
  if (answer.found === undefined) {
    throw new Error(`the process ended with ${answer.ended} before ${what}`);
  }
  return answer.found;
}
