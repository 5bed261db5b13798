/** Stops everything that the bench started, even if the bench is killed. A second process waits for its end. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { processIdentity } from "#processes/embedded/process-identity.ts";
import type { JanitorOrder } from "./janitor-process.ts";

export class Janitor {
  readonly #child: ChildProcess;

  constructor() {
    const module = fileURLToPath(new URL("./janitor-process.ts", import.meta.url));
    // A separate session, so that a signal to ours does not end it.
    this.#child = fork(module, { detached: true, stdio: "ignore" });
    this.#child.unref();
    this.#child.channel?.unref();
  }

  /** Registers a process, to be stopped with that signal if the bench exits without stopping it. */
  mind(pid: number, signal: NodeJS.Signals): void {
    this.#order({ mind: { pid, identity: processIdentity(pid), signal } });
  }

  remove(directory: string): void {
    this.#order({ remove: directory });
  }

  /** Registers a mount, to be unmounted before directories are removed. */
  unmount(directory: string): void {
    this.#order({ unmount: directory });
  }

  /** Tells the janitor to clean up and exit. It does the same if the bench dies. */
  end(): void {
    this.#child.disconnect();
  }

  #order(order: JanitorOrder): void {
    this.#child.send(order);
  }
}
