/** Calls between the bench and its child processes, as structured clones over Node's IPC channel. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

interface Call {
  readonly id: number;
  readonly name: string;
  readonly argument: unknown;
}

interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}

export type Handlers = Readonly<Record<string, (argument: never) => unknown>>;

/** Serves calls in the child until the bench exits. */
export function serve(handlers: Handlers): void {
  process.on("message", (message) => {
    const { id, name, argument } = message as Call;
    const answer = async (): Promise<Answer> => {
      try {
        return { id, value: await handlers[name]?.(argument as never) };
      } catch (error) {
        return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
      }
    };
    void answer().then((reply) => process.send?.(reply));
  });
  process.once("disconnect", () => process.exit(0));
  // Ctrl-C reaches the whole group. The bench ends its children itself, after its last calls.
  process.on("SIGINT", () => undefined);
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** A child process that serves calls. */
export class Served {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  /** @param module URL of the child's main module */
  constructor(module: URL) {
    this.#child = fork(fileURLToPath(module), { serialization: "advanced" });
    this.#child.on("message", (message) => {
      const { id, value, error } = message as Answer;
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) {
        waiting?.resolve(value);
      } else {
        waiting?.reject(new Error(error));
      }
    });
    this.#child.once("exit", (code, signal) => {
      for (const { reject } of this.#waiting.values()) {
        reject(new Error(`${module.pathname} ended (${signal ?? code})`));
      }
      this.#waiting.clear();
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async call<Result>(name: string, argument?: unknown): Promise<Result> {
    const id = (this.#lastId += 1);
    return await new Promise<Result>((resolve, reject) => {
      this.#waiting.set(id, { resolve: (value) => resolve(value as Result), reject });
      this.#child.send({ id, name, argument } satisfies Call);
    });
  }

  stop(): void {
    if (this.#child.connected) {
      this.#child.disconnect();
    }
  }
}
