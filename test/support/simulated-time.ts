/**
 * Simulated time. What is due at the same instant runs in the order in which it was planned, or in an order that a
 * random number chooses: a process may be late, so code must not depend on that order. Between two instants, everything
 * that awaits goes on.
 */
import type { Timer, Timers } from "#domain/clock.ts";

interface Planned extends Timer {
  readonly run: () => void;
  cancelled: boolean;
}

const realImmediate = setImmediate;

export class SimulatedTime implements Timers {
  /** Milliseconds of the monotonic clock. */
  now = 0;
  /** What the wall clock shows at the start of the monotonic one, in Unix milliseconds. */
  wallAtMs = 0;
  readonly #due = new Map<number, Planned[]>();
  readonly #random: (() => number) | undefined;
  /** Turns of the event loop that were asked for. */
  #turns = 0;

  /** @param random returns a number from 0 to 1 (exclusive) to order what is due at once; by default in order of its planning */
  constructor(random?: () => number) {
    this.#random = random;
  }

  readonly wall = (): number => this.wallAtMs + this.now;
  readonly monotonic = (): number => this.now;
  readonly after: Timers["after"] = (ms, run, argument) =>
    this.#plan(() => (run as (argument: unknown) => void)(argument), Math.max(1, ms));
  /** A turn of the event loop takes no time, so it comes by itself. */
  readonly soon: Timers["soon"] = (run, argument) => {
    this.#turns += 1;
    realImmediate(() => {
      this.#turns -= 1;
      (run as (argument: unknown) => void)(argument);
    });
  };
  readonly every: Timers["every"] = (ms, run) => {
    const planned = this.#plan(
      () => {
        run();
        this.#add(planned, Math.max(1, ms));
      },
      Math.max(1, ms),
    );
    return planned;
  };
  readonly cancel: Timers["cancel"] = (timer) => {
    if (timer !== undefined) {
      (timer as Planned).cancelled = true;
    }
  };
  readonly sleep: Timers["sleep"] = async (ms, signal) => {
    signal?.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const timer = this.after(ms, resolve);
      signal?.addEventListener("abort", () => {
        this.cancel(timer);
        reject(signal.reason as Error);
      });
    });
  };

  /** Lets so many milliseconds pass. */
  async advance(ms: number): Promise<void> {
    const end = this.now + ms;
    await this.#runDue();
    for (let next = this.#next(); next <= end; next = this.#next()) {
      this.now = next;
      await this.#runDue();
    }
    this.now = end;
  }

  /** The event loop stalls for so long: what is due meanwhile runs late, at its end. */
  async stall(ms: number): Promise<void> {
    this.now += ms;
    const late = [...this.#due.keys()].filter((at) => at < this.now).toSorted((a, b) => a - b);
    for (const at of late) {
      const due = this.#due.get(at) ?? [];
      this.#due.delete(at);
      this.#due.set(this.now, [...(this.#due.get(this.now) ?? []), ...due]);
    }
    await this.#runDue();
  }

  /** Lets time pass until nothing is planned any more. @throws Error if something still is after `atMostMs` */
  async runOut(atMostMs = 3_600_000): Promise<void> {
    const end = this.now + atMostMs;
    await this.#runDue();
    for (let next = this.#next(); next !== Infinity; next = this.#next()) {
      if (next > end) {
        throw new Error(`something is planned after ${atMostMs} ms`);
      }
      await this.advance(next - this.now);
    }
  }

  /** Returns the next instant at which something is due. */
  #next(): number {
    let next = Infinity;
    for (const [at, due] of this.#due) {
      if (due.every(({ cancelled }) => cancelled)) {
        this.#due.delete(at);
      } else if (at < next) {
        next = at;
      }
    }
    return next;
  }

  async #runDue(): Promise<void> {
    await this.#settled();
    for (let due = this.#due.get(this.now); due !== undefined; due = this.#due.get(this.now)) {
      this.#due.delete(this.now);
      while (due.length > 0) {
        const index = this.#random === undefined ? 0 : Math.floor(this.#random() * due.length);
        const [planned] = due.splice(index, 1);
        if (planned?.cancelled === false) {
          planned.run();
        }
      }
      await this.#settled();
    }
  }

  /** Resolves when everything that awaits has gone on. */
  async #settled(): Promise<void> {
    do {
      await new Promise((resolve) => realImmediate(resolve));
    } while (this.#turns > 0);
  }

  #plan(run: () => void, ms: number): Planned {
    const planned: Planned = { run, cancelled: false, unref: () => planned };
    this.#add(planned, ms);
    return planned;
  }

  #add(planned: Planned, ms: number): void {
    const at = Math.ceil(this.now + ms);
    const due = this.#due.get(at);
    if (due === undefined) {
      this.#due.set(at, [planned]);
    } else {
      due.push(planned);
    }
  }
}
