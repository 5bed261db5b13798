/**
 * The right to admit tokens, for a while after the database was last heard. It counts from the moment the question was
 * sent: the answer tells of revocations up to some moment after that, so whoever stops `leaseMs` after it has not missed
 * one for longer. No clocks of two machines are compared.
 */
import type { Clock } from "../domain/clock.ts";

/** Milliseconds that never go back. */
export type Monotonic = () => number;

/** The monotonic clock stands still while a machine is suspended; the wall clock does not. Slewing stays far below this. */
const CLOCKS_APART_MS = 100;

/** Both clocks at one moment. */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

export interface LeaseOptions {
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly monotonic: Monotonic;
}

export class Lease {
  readonly #options: LeaseOptions;
  #proven: Moment | undefined;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /** Now, for a question that is about to be sent. */
  moment(): Moment {
    return { monotonic: this.#options.monotonic(), wall: this.#options.clock.now() };
  }

  /** A question that was sent then is answered, and everything that the answer tells of is known here. */
  renew(sent: Moment): void {
    // Answers over two connections come in any order.
    if (this.#proven === undefined || sent.monotonic > this.#proven.monotonic) {
      this.#proven = sent;
    }
  }

  /** Nothing is proven any more. */
  drop(): void {
    this.#proven = undefined;
  }

  /** Whether tokens may be admitted now. */
  holds(): boolean {
    return this.ageMs() < this.#options.leaseMs;
  }

  /** Milliseconds since what is known here was surely complete; infinite when that cannot be said. */
  ageMs(): number {
    if (this.#proven === undefined) {
      return Infinity;
    }
    const age = this.#options.monotonic() - this.#proven.monotonic;
    const wallAge = this.#options.clock.now() - this.#proven.wall;
    return Math.abs(wallAge - age) > CLOCKS_APART_MS ? Infinity : age;
  }
}
