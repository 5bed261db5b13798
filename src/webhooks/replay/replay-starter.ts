/**
 * Starts the workflow of a replay job, or makes it check its row. The job's row is written first. The API after its
 * commit and the worker's sweep therefore reach the same run.
 */
import { ATTEMPT_MAX } from "#domain/retry-schedule.ts";
import { type Client, WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import {
  type ReplayInput,
  replayWorkflowId,
  rowChangedSignal,
  SEARCH_ATTRIBUTES,
  TASK_QUEUES,
  WORKFLOW_TYPES,
} from "#workflows/messages.ts";
import type { ReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";
import { signalOpen } from "#temporal/open-workflow.ts";

function inputOf({ id, rate_per_second: ratePerSecond, ...job }: ReplayJob): ReplayInput {
  const { state, total, done, failed, skipped, position } = job;
  return {
    v: 1,
    job_id: id,
    rate_per_second: ratePerSecond,
    status: { state, total, done, failed, skipped, position },
  };
}

async function start(client: Client, job: ReplayJob): Promise<boolean> {
  try {
    // Workers of 0.3.0 know the other type only, and cannot replay the deliveries of this kind.
    const type = job.kind === "deliveries" ? "replayDeliveries" : "replayDeadLetters";
    await client.workflow.start(WORKFLOW_TYPES[type], {
      workflowId: replayWorkflowId(job.id),
      taskQueue: TASK_QUEUES.control,
      priority: { fairnessKey: job.tenant_id },
      args: [inputOf(job)],
      workflowIdReusePolicy: "REJECT_DUPLICATE",
      workflowIdConflictPolicy: "FAIL",
      staticSummary: `replay of ${job.total}${job.listing === null ? "" : " or more"}, at most ${job.rate_per_second} a second`,
      staticDetails: `Each item gets a new cycle of ${ATTEMPT_MAX} attempts; a retry is attempted now. \`signet replay\` and the API show the result of each item.`,
      typedSearchAttributes: [
        { key: SEARCH_ATTRIBUTES.tenant, value: [job.tenant_id] },
        ...(job.endpoint_id === null ? [] : [{ key: SEARCH_ATTRIBUTES.endpoint, value: [job.endpoint_id] }]),
      ],
    });
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) {
      return false;
    }
    throw error;
  }
}

/**
 * Starts the job's workflow, or signals it to check its row.
 *
 * @returns false if the workflow has ended although the job has not
 * @throws if Temporal is unreachable; the sweep retries
 */
export async function kickReplay(client: Client, job: ReplayJob): Promise<boolean> {
  return (
    (await start(client, job)) ||
    (await signalOpen(client, replayWorkflowId(job.id), {
      name: rowChangedSignal.name,
      repeated: job.state === "RUNNING",
    }))
  );
}
