/** Temporal Schedules of the upkeep workflows. */
import { type Client, ScheduleAlreadyRunning, ScheduleOverlapPolicy } from "@temporalio/client";
import type { Duration } from "@temporalio/common";
import { TASK_QUEUES, WORKFLOW_TYPES } from "../../workflows/messages.ts";

/** Makes the schedules that are missing; those that exist are left as operators have set them. */
export async function ensureSchedules(client: Client): Promise<void> {
  await ensureSchedule(client, WORKFLOW_TYPES.purgeExpired, "1 hour");
  await ensureSchedule(client, WORKFLOW_TYPES.rotateCredentials, "5 minutes");
  await ensureSchedule(client, WORKFLOW_TYPES.rotateSigningKeys, "10 minutes");
  await ensureSchedule(client, WORKFLOW_TYPES.signCheckpoint, "1 minute");
}

async function ensureSchedule(client: Client, workflowType: string, every: Duration): Promise<void> {
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
      },
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: "1 hour" },
    });
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) {
      throw error;
    }
  }
}
