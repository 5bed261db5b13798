/** Whatever the bench starts is stopped, also when it is killed: a second process waits for its end. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { processIdentity } from "../../../src/processes/embedded/process-identity.ts";
import type { JanitorOrder } from "./janitor-process.ts";

export class Janitor {
  readonly #child: ChildProcess;

  constructor() {
    const module = fileURLToPath(new URL("./janitor-process.ts", import.meta.url));
    // A session of its own: what ends ours must not end it.
    this.#child = fork(module, { execArgv: ["--import", "tsx"], detached: true, stdio: "ignore" });
    this.#child.unref();
    this.#child.channel?.unref();
  }

  /** Stops this process with that signal when the bench has gone without doing so. */
  mind(pid: number, signal: NodeJS.Signals): void {
    this.#order({ mind: { pid, identity: processIdentity(pid), signal } });
  }

  remove(directory: string): void {
    this.#order({ remove: directory });
  }

  /** Unmounts it before anything is removed. */
  unmount(directory: string): void {
    this.#order({ unmount: directory });
  }

  /** It does what is left to do and ends. So it does when the bench is gone without a word. */
  end(): void {
    this.#child.disconnect();
  }

  #order(order: JanitorOrder): void {
    this.#child.send(order);
  }
}
