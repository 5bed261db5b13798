/** Starts replay jobs that were created or resumed while Temporal was unavailable. */
import type { Logger } from "pino";
import type { EntryServices } from "#compliance/entry.ts";
import type { Pool } from "#database/pool.ts";
import {
  changeReplayJob,
  type ReplayJob,
  takeSilentJobs,
} from "#database/repositories/webhooks/replay-jobs.ts";
import { transaction } from "#database/transaction.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { logJobEnd } from "./job-entries.ts";

const EVERY_MS = 5_000;
/** The API starts a job immediately, and a page is done at least every second. */
const SILENT_AFTER_MS = 15_000;
const KICKS_MAX = 100;

export interface ReplaySweepOptions extends EntryServices {
  /** Role signet_worker. */
  readonly pool: Pool;
  /** Starts the workflow of a job: `kickReplay`. */
  readonly kick: (job: ReplayJob) => Promise<boolean>;
  readonly log: Logger;
}

/** Cancels a job. Returns false if it has ended meanwhile: a workflow also ends when its job is complete. */
async function cancel(options: ReplaySweepOptions, { id }: ReplayJob, now: number): Promise<boolean> {
  return await transaction(options.pool, async (db) => {
    const changed = await changeReplayJob(db, { id, to: "CANCELLED", now: new Date(now) });
    if (changed !== undefined) {
      await logJobEnd(db, changed, { actor: "system:replay" }, options);
    }
    return changed !== undefined;
  });
}

/** Runs one round of the sweep. Cancels a job whose workflow was ended by hand. */
export async function sweepReplays(options: ReplaySweepOptions): Promise<void> {
  const { pool, kick, clock, log } = options;
  const now = clock.now();
  const jobs = await takeSilentJobs(pool, {
    before: new Date(now - SILENT_AFTER_MS),
    now: new Date(now),
    limit: KICKS_MAX,
  });
  for (const job of jobs) {
    try {
      if (!(await kick(job)) && (await cancel(options, job, now))) {
        log.warn({ job: job.id }, "the workflow of a replay job was ended by hand; the job was cancelled");
      }
    } catch (error) {
      log.warn({ err: error, job: job.id }, "replay job could not be started");
      return;
    }
  }
}

/** Returns the job that starts replay jobs that should run and do not. */
export function replaySweepJob(options: ReplaySweepOptions): UpkeepJob {
  return { name: "replay sweep", everyMs: EVERY_MS, run: async () => await sweepReplays(options) };
}
