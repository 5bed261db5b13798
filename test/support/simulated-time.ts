/**
 * Timers in simulated time, for simulations of many processes: fake timers wait for a real millisecond between any two
 * timers. What is due in the same millisecond runs in the order in which it was planned.
 */
import { vi } from "vitest";

interface Planned {
  readonly run: () => void;
  cancelled: boolean;
  ref(): Planned;
  unref(): Planned;
}

const realImmediate = setImmediate;

export class SimulatedTime {
  /** Milliseconds. */
  now = 0;
  readonly #due = new Map<number, Planned[]>();

  /** Replaces the timers of this thread. */
  constructor() {
    const cancel = (planned?: Planned): void => {
      if (planned !== undefined) {
        planned.cancelled = true;
      }
    };
    vi.stubGlobal("setTimeout", (run: () => void, ms = 1) => this.#plan(run, Math.max(1, ms)));
    vi.stubGlobal("clearTimeout", cancel);
    vi.stubGlobal("setImmediate", (run: () => void) => this.#plan(run, 0));
    vi.stubGlobal("clearImmediate", cancel);
    vi.stubGlobal("setInterval", (run: () => void, ms: number) => this.#repeat(run, ms));
    vi.stubGlobal("clearInterval", cancel);
  }

  /** Restores the timers. */
  end(): void {
    vi.unstubAllGlobals();
  }

  async advance(ms: number): Promise<void> {
    const end = this.now + ms;
    await this.#runDue();
    while (this.now < end) {
      this.now += 1;
      await this.#runDue();
    }
  }

  async #runDue(): Promise<void> {
    for (let due = this.#due.get(this.now); due !== undefined; due = this.#due.get(this.now)) {
      this.#due.delete(this.now);
      for (const planned of due) {
        if (!planned.cancelled) {
          planned.run();
        }
      }
      // Everything that awaits goes on, and may plan more.
      await new Promise((resolve) => realImmediate(resolve));
    }
  }

  #plan(run: () => void, ms: number): Planned {
    const planned: Planned = { run, cancelled: false, ref: () => planned, unref: () => planned };
    this.#add(planned, ms);
    return planned;
  }

  #repeat(run: () => void, ms: number): Planned {
    const planned = this.#plan(() => {
      run();
      this.#add(planned, ms);
    }, ms);
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
