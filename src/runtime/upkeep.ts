/** Jobs that a process repeats. Each runs at once and again after each pause. Runs of one job never overlap. */
import type { Logger } from "pino";
import type { Timers } from "#domain/clock.ts";
import { Sleeper } from "./sleeper.ts";

export interface UpkeepJob {
  readonly name: string;
  /** Pause between the end of one run and the start of the next, in milliseconds. */
  readonly everyMs: number;
  /** If runs find nothing, the pause doubles up to this, in milliseconds. By default it does not grow. */
  readonly idleMs?: number;
  /** Resolves to 0 if it found nothing. */
  readonly run: () => Promise<unknown>;
  /** Called once, when the process stops. */
  readonly end?: () => Promise<unknown>;
}

/**
 * Returns the pause after a run, in milliseconds.
 *
 * @param beforeMs the pause before it
 * @param found what it resolved to
 */
export function pauseAfter(
  { everyMs, idleMs = everyMs }: Pick<UpkeepJob, "everyMs" | "idleMs">,
  beforeMs: number,
  found: unknown,
): number {
  return found === 0 ? Math.min(idleMs, beforeMs * 2) : everyMs;
}

/** Repeats jobs from its creation until it is stopped. A failed run is logged, and the job continues. */
export class Upkeep {
  readonly #sleepers: ReadonlyMap<string, Sleeper>;
  readonly #log: Logger;
  readonly #loops: Promise<unknown>;

  constructor(jobs: readonly UpkeepJob[], timers: Timers, log: Logger) {
    this.#sleepers = new Map(jobs.map(({ name }) => [name, new Sleeper(timers)]));
    this.#log = log;
    this.#loops = Promise.all(jobs.map(async (job) => await this.#repeat(job)));
  }

  /** Ends the pause of the job with this name. If it runs, it runs again at once. */
  wake(name: string): void {
    this.#sleepers.get(name)?.wake();
  }

  async stop(): Promise<void> {
    this.#sleepers.forEach((sleeper) => sleeper.stop());
    await this.#loops;
  }

  async #repeat(job: UpkeepJob): Promise<void> {
    const sleeper = this.#sleepers.get(job.name) as Sleeper;
    let pauseMs = job.everyMs;
    while (!sleeper.stopped) {
      let found: unknown;
      try {
        found = await job.run();
      } catch (error) {
        this.#log.warn({ err: error, job: job.name }, "upkeep failed");
      }
      pauseMs = pauseAfter(job, pauseMs, found);
      await sleeper.sleep(pauseMs);
    }
    await job
      .end?.()
      .catch((error: unknown) => this.#log.warn({ err: error, job: job.name }, "upkeep failed at the end"));
  }
}
