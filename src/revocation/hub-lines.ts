/** What a hub has for processes that lack revocations: the last lines that it relayed, and a snapshot in chunks. */
import { CHUNK_CHARACTERS_MAX } from "./hub-messages.ts";
import { nextHead, type SequenceState } from "./proof.ts";

/** Lines that are kept, at least; at most twice as many. */
const TAIL_MAX = 20_000;
/** Lines in one message. */
const LINES_AT_ONCE = 5_000;

export class HubLines {
  readonly #lines = new Map<number, string>();
  /** The last state that the primary has told. */
  #state: SequenceState | undefined;

  /**
   * Whether a state that the primary tells follows from its last one by the lines between them. Otherwise the database was
   * restored or tampered with, or a line was forged on the way.
   */
  lead(state: SequenceState): boolean {
    const known = this.#state;
    if (known !== undefined && state.sequence < known.sequence) {
      return true; // Answered before.
    }
    let head = known?.head;
    for (let next = (known?.sequence ?? 0) + 1; next <= state.sequence && head !== undefined; next += 1) {
      const line = this.#lines.get(next);
      head = line === undefined ? undefined : nextHead(head, line);
    }
    this.#state = state;
    return head === undefined || head === state.head;
  }

  /** Keeps a line. @returns its number; undefined if it has none */
  keep(line: string): number | undefined {
    const sequence = Number(line.slice(0, line.indexOf(":")));
    if (!Number.isSafeInteger(sequence)) {
      return undefined;
    }
    this.#lines.set(sequence, line);
    return sequence;
  }

  /** Returns the known lines after a number, up to another, in parts for a message each. */
  between(after: number, sequence: number): string[][] {
    const lines: string[] = [];
    for (let next = Math.max(after, sequence - 2 * TAIL_MAX) + 1; next <= sequence; next += 1) {
      const line = this.#lines.get(next);
      if (line !== undefined) {
        lines.push(line);
      }
    }
    const parts: string[][] = [];
    for (let at = 0; at < lines.length; at += LINES_AT_ONCE) {
      parts.push(lines.slice(at, at + LINES_AT_ONCE));
    }
    return parts;
  }

  /** Drops old lines if there are too many. A snapshot from before then no longer leads to the rest. */
  shorten(sequence: number): boolean {
    if (this.#lines.size <= 2 * TAIL_MAX) {
      return false;
    }
    for (const known of this.#lines.keys()) {
      if (known <= sequence - TAIL_MAX) {
        this.#lines.delete(known);
      }
    }
    return true;
  }

  clear(): void {
    this.#lines.clear();
    this.#state = undefined;
  }
}

/** The lines of a snapshot, from the next chunk on. */
export class SnapshotChunks {
  readonly count: number;
  #rest: string;

  constructor(lines: string) {
    this.count = Math.ceil(lines.length / CHUNK_CHARACTERS_MAX);
    this.#rest = lines;
  }

  /** Returns the next chunk; undefined after the last one. */
  next(): string | undefined {
    if (this.#rest === "") {
      return undefined;
    }
    const chunk = this.#rest.slice(0, CHUNK_CHARACTERS_MAX);
    this.#rest = this.#rest.slice(CHUNK_CHARACTERS_MAX);
    return chunk;
  }
}
