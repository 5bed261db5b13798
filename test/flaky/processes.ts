/** Stops a process with all that descend from it, and lets them go on (Linux). */
import { signal } from "#test/support/interrupt-on-exit.ts";
import { allPids, statFields } from "../bench/measure/process-tree.ts";

/** Field numbers of proc_pid_stat(5), counted from the one after the parenthesised command. */
const STATE = 0;
const PARENT = 1;
const START_TIME = 19;
/** A process may start another one while it is being stopped. */
const ROUNDS_MAX = 10;

interface Entry {
  readonly pid: number;
  readonly parent: number;
  readonly state: string;
  /** Unique to the process, also after its pid is used again. */
  readonly identity: string;
}

function readEntry(pid: number): Entry | undefined {
  const fields = statFields(pid);
  return fields === undefined
    ? undefined
    : {
        pid,
        parent: Number(fields[PARENT]),
        state: fields[STATE] ?? "",
        identity: `${pid}/${fields[START_TIME]}`,
      };
}

/** A process and its descendants, also those whose parent has ended. */
export class ProcessTree {
  /** Identities of all that were ever seen. */
  readonly #known = new Set<string>();
  readonly #stopped: Entry[] = [];

  constructor(root: number) {
    this.#known.add(readEntry(root)?.identity ?? "");
  }

  /** Looks for new descendants. Returns all that run. Call it often: an orphan is found only if its parent was seen. */
  look(): readonly Entry[] {
    const entries = allPids().flatMap((pid) => readEntry(pid) ?? []);
    const ours = new Set(entries.filter(({ identity }) => this.#known.has(identity)).map(({ pid }) => pid));
    for (let before = -1; before !== ours.size;) {
      before = ours.size;
      entries.filter(({ parent }) => ours.has(parent)).forEach(({ pid }) => ours.add(pid));
    }
    const found = entries.filter(({ pid }) => ours.has(pid));
    found.forEach(({ identity }) => this.#known.add(identity));
    return found;
  }

  /** Stops every process that runs. One that a test has stopped stays out of it. */
  stop(): void {
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const running = this.look().filter(
        ({ state, identity }) =>
          !/[TtZX]/.test(state) && !this.#stopped.some((stopped) => stopped.identity === identity),
      );
      running.forEach(({ pid }) => signal(pid, "SIGSTOP"));
      this.#stopped.push(...running);
      if (running.length === 0) {
        return;
      }
    }
  }

  /** Lets those go on that `stop` has stopped. */
  goOn(): void {
    this.#stopped.splice(0).forEach(({ pid }) => signal(pid, "SIGCONT"));
  }
}
