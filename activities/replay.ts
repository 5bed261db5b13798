/** Activities of the workflows `replayDeadLetters` and `replayDeliveries`. */
import {
  changeJob,
  replayPage,
  type ReplayRunnerOptions,
  type SeenJob,
} from "#webhooks/replay/replay-runner.ts";
import type { ReplayActivities, ReplayJobStatus } from "./types.ts";

function statusOf(job: SeenJob): ReplayJobStatus {
  const { state, total, done, failed, skipped, position, held, listing } = job;
  const status = { state, total, done, failed, skipped, position };
  return { ...status, ...(held ? { held } : {}), ...(listing ? { listing } : {}) };
}

export function createReplayActivities(options: ReplayRunnerOptions): ReplayActivities {
  const page: ReplayActivities["replayPage"] = async (input) =>
    statusOf(await replayPage(options, { jobId: input.job_id, after: input.after, size: input.size }));
  return {
    replayPage: page,
    replayDeliveriesPage: page,
    changeReplay: async (input) =>
      statusOf(await changeJob(options, { jobId: input.job_id, to: input.to, by: input.by })),
  };
}
