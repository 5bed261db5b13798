/** One side of the chaos suite's ledger. Each line is on disk before anyone acts on it. */
import { openSync, fdatasync, write } from "node:fs";
import { promisify } from "node:util";

const writeTo = promisify(write) as (descriptor: number, text: string) => Promise<unknown>;
const sync = promisify(fdatasync);

interface Line {
  readonly text: string;
  readonly written: (() => void) | undefined;
}

/** Appends lines to a file. Lines that arrive during a sync share the next one. */
export class LedgerWriter {
  readonly #descriptor: number;
  #waiting: Line[] = [];
  #writing: Promise<void> | undefined;

  /** @param path file, created if missing, else appended to */
  constructor(path: string) {
    this.#descriptor = openSync(path, "a", 0o600);
  }

  /** @param written called once the line is on disk */
  append(entry: Readonly<Record<string, number>>, written?: () => void): void {
    this.#waiting.push({ text: `${JSON.stringify(entry)}\n`, written });
    this.#writing ??= this.#write();
  }

  /** Resolves when every line so far is on disk. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    // Lines of the same event loop turn share the first sync.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      await writeTo(this.#descriptor, lines.map(({ text }) => text).join(""));
      await sync(this.#descriptor);
      for (const { written } of lines) {
        written?.();
      }
    }
    this.#writing = undefined;
  }
}
