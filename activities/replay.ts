/** Activities of the workflows `replayDeadLetters` and `replayDeliveries`. */
import type { ReplayRunner } from "#webhooks/replay/replay-runner.ts";
import type { ReplayActivities, ReplayJobStatus } from "./types.ts";

type Job = Awaited<ReturnType<ReplayRunner["page"]>>;

function statusOf(job: Job): ReplayJobStatus {
  const { state, total, done, failed, skipped, position, held, listing } = job;
  const status = { state, total, done, failed, skipped, position };
  return { ...status, ...(held ? { held } : {}), ...(listing ? { listing } : {}) };
}

export function createReplayActivities(runner: ReplayRunner): ReplayActivities {
  const replayPage: ReplayActivities["replayPage"] = async (input) =>
    statusOf(await runner.page({ jobId: input.job_id, after: input.after, size: input.size }));
  return {
    replayPage,
    replayDeliveriesPage: replayPage,
    changeReplay: async (input) =>
      statusOf(await runner.change({ jobId: input.job_id, to: input.to, by: input.by })),
  };
}
