/** Waiting that can be cut short: by something to do, or by the end. */

export class Sleeper {
  readonly #sleepers = new Set<{ readonly soundly: boolean; readonly wake: () => void }>();
  #stopped = false;
  /** A call to wake that met nobody asleep counts for the next one who would fall asleep. */
  #called = false;

  get stopped(): boolean {
    return this.#stopped;
  }

  /** Until time has passed or the end comes; a call to wake ends it too, unless it sleeps soundly. */
  async sleep(ms: number, { soundly = false }: { readonly soundly?: boolean } = {}): Promise<void> {
    if (ms <= 0 || this.#stopped || (!soundly && this.#called)) {
      this.#called = soundly && this.#called;
      return;
    }
    await new Promise<void>((resolve) => {
      const sleeper = {
        soundly,
        wake: () => {
          clearTimeout(timer);
          this.#sleepers.delete(sleeper);
          resolve();
        },
      };
      const timer = setTimeout(sleeper.wake, ms);
      this.#sleepers.add(sleeper);
    });
  }

  /** There is something to do. */
  wake(): void {
    const light = [...this.#sleepers].filter(({ soundly }) => !soundly);
    this.#called = light.length === 0;
    for (const sleeper of light) {
      sleeper.wake();
    }
  }

  /** Nobody sleeps any more. */
  stop(): void {
    this.#stopped = true;
    for (const sleeper of this.#sleepers) {
      sleeper.wake();
    }
  }
}
