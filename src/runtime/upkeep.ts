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

export interface Upkeep {
  /** Ends the pause of the job with this name. If it runs, it runs again at once. */
  wake(name: string): void;
  stop(): Promise<void>;
}

/** Starts the jobs. A failed run is logged, and the job continues. */
export function startUpkeep(jobs: readonly UpkeepJob[], timers: Timers, log: Logger): Upkeep {
  const sleepers = new Map(jobs.map(({ name }) => [name, new Sleeper(timers)]));

  async function repeat(job: UpkeepJob): Promise<void> {
    const sleeper = sleepers.get(job.name) as Sleeper;
    let pauseMs = job.everyMs;
    while (!sleeper.stopped) {
      let found: unknown;
      try {
        found = await job.run();
      } catch (error) {
        log.warn({ err: error, job: job.name }, "upkeep failed");
      }
      pauseMs = pauseAfter(job, pauseMs, found);
      await sleeper.sleep(pauseMs);
    }
    await job
      .end?.()
      .catch((error: unknown) => log.warn({ err: error, job: job.name }, "upkeep failed at the end"));
  }

  const loops = Promise.all(jobs.map(repeat));
  return {
    wake: (name) => sleepers.get(name)?.wake(),
    stop: async () => {
      for (const sleeper of sleepers.values()) {
        sleeper.stop();
      }
      await loops;
    },
  };
}
