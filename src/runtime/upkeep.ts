/** Jobs that a process repeats. Each runs at once and again after each pause. Runs of one job never overlap. */
import type { Logger } from "pino";
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

/** Starts the jobs. A failed run is logged, and the job continues. */
export function startUpkeep(jobs: readonly UpkeepJob[], log: Logger): { stop(): Promise<void> } {
  const sleeper = new Sleeper();

  async function repeat(job: UpkeepJob): Promise<void> {
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
    stop: async () => {
      sleeper.stop();
      await loops;
    },
  };
}
