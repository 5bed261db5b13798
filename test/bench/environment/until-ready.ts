/** Waits for servers that the bench has started. */
import { setTimeout as delay } from "node:timers/promises";
import { logTail, type ServerProcess } from "#processes/embedded/server-process.ts";

const READY_TIMEOUT_MS = 120_000;
const POLL_MS = 50;

export interface Starting {
  readonly server: ServerProcess | undefined;
  readonly logFile: string;
}

/** Resolves when the server is ready. @throws Error with the end of its log if it exits or times out */
export async function untilReady(
  what: string,
  { server, logFile }: Starting,
  ready: () => Promise<boolean>,
): Promise<void> {
  const deadline = performance.now() + READY_TIMEOUT_MS;
  while (!(await ready())) {
    if (server?.ended() !== undefined || performance.now() > deadline) {
      throw new Error(`${what} did not start; ${logFile} ends with:\n${logTail(logFile)}`);
    }
    await delay(POLL_MS);
  }
}
