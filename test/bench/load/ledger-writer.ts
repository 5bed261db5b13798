/** One side of the chaos suite's ledger: lines that are on disk before anybody acts on them. */
import { openSync, fdatasync, write } from "node:fs";
import { promisify } from "node:util";

const writeTo = promisify(write) as (descriptor: number, text: string) => Promise<unknown>;
const sync = promisify(fdatasync);

interface Line {
  readonly text: string;
  readonly written: (() => void) | undefined;
}

/** Appends lines to a file. Lines that come while a sync is under way share the next one. */
export class LedgerWriter {
  readonly #descriptor: number;
  #waiting: Line[] = [];
  #writing: Promise<void> | undefined;

  /** @param path of the file; it is created, or continued */
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
    // Whatever else arrives in this turn of the event loop shares the first sync.
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
