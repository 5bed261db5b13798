/**
 * Splits long work on the event loop into slices. When a slice is used up, the rest waits for a later turn. Thus one
 * tenant's work delays the requests of others by at most one slice and one piece of work.
 */

/** Length of a slice, in milliseconds per turn of the event loop. */
const SLICE_MS = 5;

/** Resolves in a later turn of the event loop. */
export async function nextTurn(): Promise<void> {
  await new Promise<void>((resolve) => setImmediate(resolve));
}

interface Waiting {
  readonly work: () => void;
  readonly size: number;
}

interface Row {
  readonly waiting: Waiting[];
  size: number;
}

export interface SlicesOptions {
  /** Maximum total size of one owner's waiting work; unlimited by default. */
  readonly sizeMax?: number;
  /** Creates the error for work above `sizeMax`. */
  readonly refusal?: () => Error;
  /** Monotonic clock, in milliseconds. */
  readonly now?: () => number;
}

export class Slices {
  readonly #sizeMax: number;
  readonly #refusal: () => Error;
  readonly #now: () => number;
  /** Waiting work by owner. Owners take turns. */
  readonly #rows = new Map<string, Row>();
  #usedMs = 0;
  #turnAsked = false;

  constructor({
    sizeMax = Infinity,
    refusal = () => new Error("too much work waits"),
    now = () => performance.now(),
  }: SlicesOptions = {}) {
    this.#sizeMax = sizeMax;
    this.#refusal = refusal;
    this.#now = now;
  }

  /**
   * Runs a piece of work. It runs at once, without a promise, if the slice has time left and nothing waits.
   *
   * @param owner owner of the work
   * @param size size of the work while it waits
   * @throws the error of `refusal` if the owner's waiting work would exceed `sizeMax`
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

  /** Schedules the next turn, which starts a new slice. */
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
      // Moves the owner to the end, or removes it if no work is left.
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
