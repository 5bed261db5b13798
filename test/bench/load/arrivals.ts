/** Records which events of a run arrived at a sink. */

/** One slot per event, or `slots` per event if each goes to several endpoints. */
export interface ArrivalReport {
  /** Arrival of each slot's first attempt; NaN if none arrived. */
  readonly first: Float64Array;
  /** Arrival of the first attempt that was answered 200. */
  readonly firstOk: Float64Array;
  readonly attempts: Uint16Array;
  /** Number of attempts answered 200. More than one means a duplicate. */
  readonly oks: Uint16Array;
  /** Number of requests from other runs: late attempts of an earlier scenario. */
  readonly foreign: number;
}

export interface ArrivalProgress {
  /** Number of slots that were answered 200. */
  readonly ok: number;
  /** Number of attempts of all slots, with any answer. */
  readonly attempts: number;
  readonly lastAtMs: number;
}

/** Collects the arrivals of a run. */
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

  /** Records an attempt. Returns its slot and its number within the slot, from 1. */
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

  /** Records that an attempt was answered 200. */
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
