/** Ends servers and other children of tests, also when their test process is killed. */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { processIdentity } from "#processes/embedded/process-identity.ts";

/** Lists the children of a run, in its directory. */
const CHILDREN = "children";
/** The directory of the run, for its processes: test files and the setup alike. */
const RUN = "SIGNET_TEST_RUN";

/** Lets this process and those that it starts note their children. @param run the run's directory */
export function noteChildrenOf(run: string): void {
  process.env[RUN] = run;
}

/** Notes a child of the run, if there is one. */
export function noteChild(pid: number | undefined): void {
  const run = process.env[RUN];
  if (run !== undefined && pid !== undefined) {
    appendFileSync(join(run, CHILDREN), `${processIdentity(pid) ?? ""}\n`);
  }
}

/** Kills the noted children that still run: their test process was killed, or a hook ended before they were ready. */
export function killChildren(run: string): readonly number[] {
  const path = join(run, CHILDREN);
  const noted = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
  const left = noted.flatMap((identity) => {
    const pid = Number.parseInt(identity, 10);
    return processIdentity(pid) === identity ? [pid] : [];
  });
  left.forEach((pid) => signal(pid, "SIGKILL"));
  return left;
}

/** Signals a process, unless it has ended already. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") {
      throw error;
    }
  }
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
    if (pid !== undefined) {
      signal(pid, "SIGINT");
    }
  };
  process.once("exit", interrupt);
  return () => void process.off("exit", interrupt);
}
