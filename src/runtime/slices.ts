/**
 * Work for the event loop that can take long, in slices: who has used one up waits for a later turn, in which others have
 * theirs. What one tenant has to do keeps nobody else's requests waiting for longer than a slice and one piece of work.
 */

/** Milliseconds of one turn of the event loop. */
const SLICE_MS = 5;

interface Waiting {
  readonly work: () => void;
  readonly size: number;
}

interface Row {
  readonly waiting: Waiting[];
  size: number;
}

export interface SlicesOptions {
  /** What of one owner may wait, in the sizes that its work is given with; no limit unless one is set. */
  readonly sizeMax?: number;
  /** What more is refused with. */
  readonly refusal?: () => Error;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
}

export class Slices {
  readonly #sizeMax: number;
  readonly #refusal: () => Error;
  readonly #now: () => number;
  /** What waits, by whose it is; they take turns. */
  readonly #rows = new Map<string, Row>();
  #usedMs = 0;
  #turnAsked = false;

  constructor({
    sizeMax = Infinity,
    refusal = () => new Error("too much waits"),
    now = () => performance.now(),
  }: SlicesOptions = {}) {
    this.#sizeMax = sizeMax;
    this.#refusal = refusal;
    this.#now = now;
  }

  /**
   * Does a piece of work: at once where there is time left and nobody waits, which costs no promise.
   *
   * @param owner whose it is
   * @param size what it holds while it waits
   * @throws what `refusal` makes, when more of the owner's waits than may
   */
  run<T>(owner: string, work: () => T, size = 0): T | Promise<T> {
    if (this.#rows.size === 0 && this.#usedMs < SLICE_MS) {
      this.#askForTurn();
      return this.#measured(work);
    }
    const row = this.#rows.get(owner) ?? { waiting: [], size: 0 };
    if (row.size + size > this.#sizeMax) {
      throw this.#refusal();
    }
    this.#rows.set(owner, row);
    row.size += size;
    this.#askForTurn();
    return new Promise<T>((resolve, reject) => {
      const settle = (): void => {
        try {
          resolve(work());
        } catch (error) {
          reject(error);
        }
      };
      row.waiting.push({ work: settle, size });
    });
  }

  #measured<T>(work: () => T): T {
    const begunAt = this.#now();
    try {
      return work();
    } finally {
      this.#usedMs += this.#now() - begunAt;
    }
  }

  /** The next turn has time again. */
  #askForTurn(): void {
    if (!this.#turnAsked) {
      this.#turnAsked = true;
      setImmediate(() => this.#turn());
    }
  }

  #turn(): void {
    this.#turnAsked = false;
    this.#usedMs = 0;
    while (this.#usedMs < SLICE_MS) {
      const [next] = this.#rows;
      if (next === undefined) {
        return;
      }
      const [owner, row] = next;
      const first = row.waiting.shift();
      // To the end of the others, or out of it.
      this.#rows.delete(owner);
      if (row.waiting.length > 0) {
        this.#rows.set(owner, row);
      }
      if (first !== undefined) {
        row.size -= first.size;
        this.#measured(first.work);
      }
    }
    this.#askForTurn();
  }
}
