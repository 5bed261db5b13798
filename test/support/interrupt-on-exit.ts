/** Ends servers and other children of tests, also when their test process is killed. */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { processIdentity } from "#processes/embedded/process-identity.ts";

/** Lists the children of a run, in its directory. */
const CHILDREN = "children";

/** Notes a child of the run with this directory. */
export function noteChild(run: string, pid: number): void {
  appendFileSync(join(run, CHILDREN), `${processIdentity(pid) ?? ""}\n`);
}

/** Kills the noted children that still run: their test process was killed, or a hook ended before they were ready. */
export function killChildren(run: string): readonly number[] {
  const path = join(run, CHILDREN);
  const noted = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
  const left = noted.flatMap((identity) => {
    const pid = Number.parseInt(identity, 10);
    return processIdentity(pid) === identity ? [pid] : [];
  });
  left.forEach((pid) => process.kill(pid, "SIGKILL"));
  return left;
}

/**
 * Interrupts a server when this process exits. Ignores a server that has already ended.
 *
 * @param pidOf returns the server's current pid, or undefined if it is not running
 * @returns a function that removes the handler
 */
export function interruptOnExit(pidOf: () => number | undefined): () => void {
  const interrupt = (): void => {
    const pid = pidOf();
    try {
      void (pid !== undefined && process.kill(pid, "SIGINT"));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") {
        throw error;
      }
    }
  };
  process.once("exit", interrupt);
  return () => void process.off("exit", interrupt);
}
