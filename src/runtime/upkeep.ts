/** Jobs that a process repeats. Each runs at once and again after each pause. Runs of one job never overlap. */
import type { Logger } from "pino";
import { Sleeper } from "./sleeper.ts";

export interface UpkeepJob {
  readonly name: string;
  /** Pause between the end of one run and the start of the next, in milliseconds. */
  readonly everyMs: number;
  readonly run: () => Promise<unknown>;
  /** Called once, when the process stops. */
  readonly end?: () => Promise<unknown>;
}

/** Starts the jobs. A failed run is logged, and the job continues. */
export function startUpkeep(jobs: readonly UpkeepJob[], log: Logger): { stop(): Promise<void> } {
  const sleeper = new Sleeper();

  async function repeat(job: UpkeepJob): Promise<void> {
    while (!sleeper.stopped) {
      try {
        await job.run();
      } catch (error) {
        log.warn({ err: error, job: job.name }, "upkeep failed");
      }
      await sleeper.sleep(job.everyMs);
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
