/** Sleeping that ends early when there is work or when the process stops. */
import type { Timers } from "#domain/clock.ts";

export class Sleeper {
  readonly #timers: Timers;
  readonly #sleepers = new Set<{ readonly soundly: boolean; readonly wake: () => void }>();
  #stopped = false;
  /** Whether a call to wake found nobody asleep. It then cancels the next sleep. */
  #called = false;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** Waits until the time has passed or {@link stop} is called. {@link wake} also ends it, unless it sleeps soundly. */
  async sleep(ms: number, { soundly = false }: { readonly soundly?: boolean } = {}): Promise<void> {
    if (ms <= 0 || this.#stopped || (!soundly && this.#called)) {
      this.#called = soundly && this.#called;
      return;
    }
    await new Promise<void>((resolve) => {
      const sleeper = {
        soundly,
        wake: () => {
          this.#timers.cancel(timer);
          this.#sleepers.delete(sleeper);
          resolve();
        },
      };
      const timer = this.#timers.after(ms, sleeper.wake);
      this.#sleepers.add(sleeper);
    });
  }

  /** Wakes all sleepers, except those that sleep soundly. */
  wake(): void {
    const light = [...this.#sleepers].filter(({ soundly }) => !soundly);
    this.#called = light.length === 0;
    for (const sleeper of light) {
      sleeper.wake();
    }
  }

  /** Wakes all sleepers and prevents further sleep. */
  stop(): void {
    this.#stopped = true;
    for (const sleeper of this.#sleepers) {
      sleeper.wake();
    }
  }
}
