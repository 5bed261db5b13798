/** Temporal Schedules of the upkeep workflows. */
import { type Client, ScheduleAlreadyRunning, ScheduleOverlapPolicy } from "@temporalio/client";
import type { Duration } from "@temporalio/common";
import { TASK_QUEUES, WORKFLOW_TYPES } from "../../workflows/messages.ts";

interface Upkeep {
  readonly workflowType: string;
  readonly every: Duration;
  /** For Temporal's UI. */
  readonly what: string;
}

/** Makes the schedules that are missing; those that exist are left as operators have set them. */
export async function ensureSchedules(client: Client): Promise<void> {
  await ensureSchedule(client, {
    workflowType: WORKFLOW_TYPES.purgeExpired,
    every: "1 hour",
    what: "what is over is removed",
  });
  await ensureSchedule(client, {
    workflowType: WORKFLOW_TYPES.rotateCredentials,
    every: "5 minutes",
    what: "client secrets are followed and chased up",
  });
  await ensureSchedule(client, {
    workflowType: WORKFLOW_TYPES.rotateSigningKeys,
    every: "10 minutes",
    what: "signing keys move on",
  });
  await ensureSchedule(client, {
    workflowType: WORKFLOW_TYPES.signCheckpoint,
    every: "1 minute",
    what: "the compliance log is signed",
  });
}

async function ensureSchedule(client: Client, { workflowType, every, what }: Upkeep): Promise<void> {
  try {
    await client.schedule.create({
      scheduleId: workflowType,
      spec: { intervals: [{ every }] },
      action: {
        type: "startWorkflow",
        workflowType,
        workflowId: workflowType,
        taskQueue: TASK_QUEUES.control,
        args: [],
        workflowExecutionTimeout: "3 hours",
        staticSummary: what,
      },
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: "1 hour" },
    });
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) {
      throw error;
    }
  }
}
