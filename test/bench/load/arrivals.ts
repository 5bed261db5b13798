/** What a sink saw of the events of a run. */

/** One slot per event, or `slots` per event where each goes to several endpoints. */
export interface ArrivalReport {
  /** When the first attempt of each slot arrived; NaN where none has. */
  readonly first: Float64Array;
  /** When the first attempt that was answered 200 arrived. */
  readonly firstOk: Float64Array;
  readonly attempts: Uint16Array;
  /** Attempts answered 200: more than one is a duplicate. */
  readonly oks: Uint16Array;
  /** Requests of other runs: late attempts of an earlier scenario. */
  readonly foreign: number;
}

export interface ArrivalProgress {
  /** Slots that were answered 200. */
  readonly ok: number;
  /** Attempts of all slots, answered however. */
  readonly attempts: number;
  readonly lastAtMs: number;
}

/** The table behind a run. */
export class Arrivals {
  readonly run: Buffer;
  readonly #slots: number;
  readonly #first: Float64Array;
  readonly #firstOk: Float64Array;
  readonly #attempts: Uint16Array;
  readonly #oks: Uint16Array;
  #ok = 0;
  #all = 0;
  #lastAtMs = 0;
  foreign = 0;

  constructor(run: string, events: number, slots: number) {
    this.run = Buffer.from(run);
    this.#slots = slots;
    const size = events * slots;
    this.#first = new Float64Array(size).fill(Number.NaN);
    this.#firstOk = new Float64Array(size).fill(Number.NaN);
    this.#attempts = new Uint16Array(size);
    this.#oks = new Uint16Array(size);
  }

  /** Counts an attempt; which one it is of its slot, from 1. */
  arrived(index: number, endpoint: number, atMs: number): { slot: number; attempt: number } {
    const slot = index * this.#slots + (endpoint % this.#slots);
    const attempt = (this.#attempts[slot] ?? 0) + 1;
    this.#attempts[slot] = attempt;
    if (attempt === 1) {
      this.#first[slot] = atMs;
    }
    this.#all += 1;
    this.#lastAtMs = atMs;
    return { slot, attempt };
  }

  /** Notes that an attempt is answered 200. */
  acknowledged(slot: number, arrivedAtMs: number): void {
    const oks = (this.#oks[slot] ?? 0) + 1;
    this.#oks[slot] = oks;
    if (oks === 1) {
      this.#firstOk[slot] = arrivedAtMs;
      this.#ok += 1;
    }
  }

  get progress(): ArrivalProgress {
    return { ok: this.#ok, attempts: this.#all, lastAtMs: this.#lastAtMs };
  }

  get report(): ArrivalReport {
    return {
      first: this.#first,
      firstOk: this.#firstOk,
      attempts: this.#attempts,
      oks: this.#oks,
      foreign: this.foreign,
    };
  }
}
