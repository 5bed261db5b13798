/** Jobs that a process repeats on its own. Each runs at once and then after each pause; none runs beside itself. */
import type { Logger } from "pino";

export interface UpkeepJob {
  readonly name: string;
  /** Pause between the end of one run and the start of the next, in milliseconds. */
  readonly everyMs: number;
  readonly run: () => Promise<unknown>;
}

/** Starts the jobs; a run that fails is logged and followed by the next one. */
export function startUpkeep(jobs: readonly UpkeepJob[], log: Logger): { stop(): Promise<void> } {
  const stopping = new AbortController();

  async function pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      stopping.signal.addEventListener(
        "abort",
        () => {
          clearTimeout(timer);
          resolve();
        },
        { once: true },
      );
    });
  }

  async function repeat(job: UpkeepJob): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await job.run();
      } catch (error) {
        log.warn({ err: error, job: job.name }, "upkeep failed");
      }
      await pause(job.everyMs);
    }
  }

  const loops = Promise.all(jobs.map(repeat));
  return {
    stop: async () => {
      stopping.abort();
      await loops;
    },
  };
}
