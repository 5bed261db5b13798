/** Jobs that a process repeats on its own. Each runs at once and then after each pause; none runs beside itself. */
import type { Logger } from "pino";
import { Sleeper } from "./sleeper.ts";

export interface UpkeepJob {
  readonly name: string;
  /** Pause between the end of one run and the start of the next, in milliseconds. */
  readonly everyMs: number;
  readonly run: () => Promise<unknown>;
  /** Once, when the process stops. */
  readonly end?: () => Promise<unknown>;
}

/** Starts the jobs; a run that fails is logged and followed by the next one. */
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
      .catch((error: unknown) => log.warn({ err: error, job: job.name }, "upkeep did not end well"));
  }

  const loops = Promise.all(jobs.map(repeat));
  return {
    stop: async () => {
      sleeper.stop();
      await loops;
    },
  };
}
