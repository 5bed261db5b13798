/** A server of ours that can be killed, stopped for a while, and started again: same command, same ports, same data. */
import { setTimeout as delay } from "node:timers/promises";
import { isRunning } from "../../../src/processes/embedded/process-identity.ts";
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
    // It has ended meanwhile.
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

  /** Of the newest one. */
  get pid(): number {
    return this.#current.pid;
  }

  /** SIGKILL for it and everything below it, as when the machine fails; resolves when nothing of it is left. */
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

  /** Stops it and everything below it for a while, as when the machine does not get to run. */
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

  /** Ends it in order; {@link Restartable.restart} starts it again. */
  async end(): Promise<void> {
    await this.#current.stop();
  }

  /** Starts it again, after it has ended. */
  async restart(): Promise<void> {
    this.#current = await this.#launch();
  }

  async stop(): Promise<void> {
    this.resume();
    await this.#current.stop();
  }
}
