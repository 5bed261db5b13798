/**
 * The permission to admit tokens, valid for a while after an answer of the database. It counts from when the question
 * was sent. The answer covers all revocations up to a later moment, so for `leaseMs` none can have been missed for
 * longer. Clocks of different machines are never compared.
 */
import type { Clock, Timers } from "#domain/clock.ts";

/** The monotonic clock stops while a machine is suspended, but the wall clock runs. Slewing stays below this limit. */
const CLOCKS_APART_MS = 100;

/** Both clocks at one moment. */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

export interface LeaseOptions {
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly timers: Pick<Timers, "monotonic">;
}

export class Lease {
  readonly #options: LeaseOptions;
  #proven: Moment | undefined;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /** Returns the current moment, for a question about to be sent. */
  moment(): Moment {
    return { monotonic: this.#options.timers.monotonic(), wall: this.#options.clock.now() };
  }

  /** Renews the lease after applying the answer to a question sent at `sent`. */
  renew(sent: Moment): void {
    // Answers over two connections may arrive in any order.
    if (this.#proven === undefined || sent.monotonic > this.#proven.monotonic) {
      this.#proven = sent;
    }
  }

  /** Ends the lease. */
  drop(): void {
    this.#proven = undefined;
  }

  /** Whether tokens may be admitted now. */
  holds(): boolean {
    return this.ageMs() < this.#options.leaseMs;
  }

  /** Returns the age of the last complete knowledge, in milliseconds; infinity if unknown. */
  ageMs(): number {
    if (this.#proven === undefined) {
      return Infinity;
    }
    const age = this.#options.timers.monotonic() - this.#proven.monotonic;
    const wallAge = this.#options.clock.now() - this.#proven.wall;
    return Math.abs(wallAge - age) > CLOCKS_APART_MS ? Infinity : age;
  }
}
