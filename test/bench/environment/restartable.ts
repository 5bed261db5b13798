/** A server that can be killed, paused and restarted with the same command, ports and data. */
import { setTimeout as delay } from "node:timers/promises";
import { isRunning } from "#processes/embedded/process-identity.ts";
import { processTree } from "../measure/process-tree.ts";

const GONE_TIMEOUT_MS = 10_000;

export interface Launched {
  readonly pid: number;
  stop(): Promise<void>;
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has already ended.
  }
}

export class Restartable {
  readonly #launch: () => Promise<Launched>;
  #current: Launched;

  private constructor(launch: () => Promise<Launched>, current: Launched) {
    this.#launch = launch;
    this.#current = current;
  }

  static async start(launch: () => Promise<Launched>): Promise<Restartable> {
    return new Restartable(launch, await launch());
  }

  /** Pid of the current process. */
  get pid(): number {
    return this.#current.pid;
  }

  /** Sends SIGKILL to the whole process tree, as if the machine failed. Resolves when no process is left. */
  async kill(): Promise<void> {
    const pids = processTree(this.pid);
    for (const pid of pids) {
      send(pid, "SIGKILL");
    }
    const deadline = performance.now() + GONE_TIMEOUT_MS;
    while (pids.some((pid) => isRunning(pid))) {
      if (performance.now() > deadline) {
        throw new Error(`processes ${pids.join(", ")} survived SIGKILL`);
      }
      await delay(5);
    }
  }

  /** Stops the whole process tree with SIGSTOP, as if the machine hung. */
  pause(): void {
    for (const pid of processTree(this.pid)) {
      send(pid, "SIGSTOP");
    }
  }

  resume(): void {
    for (const pid of processTree(this.pid)) {
      send(pid, "SIGCONT");
    }
  }

  get isRunning(): boolean {
    return isRunning(this.pid);
  }

  /** Shuts it down gracefully. {@link Restartable.restart} starts it again. */
  async end(): Promise<void> {
    await this.#current.stop();
  }

  /** Starts it again after it has ended. */
  async restart(): Promise<void> {
    this.#current = await this.#launch();
  }

  async stop(): Promise<void> {
    this.resume();
    await this.#current.stop();
  }
}
