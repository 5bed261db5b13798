/** Temporal Schedules of the upkeep workflows. */
import { type Client, ScheduleAlreadyRunning, ScheduleOverlapPolicy } from "@temporalio/client";
import type { Duration } from "@temporalio/common";
import { TASK_QUEUES, WORKFLOW_TYPES } from "#workflows/messages.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";

const EVERY_MS = 600_000;

interface Upkeep {
  readonly workflowType: string;
  readonly every: Duration;
  /** Summary in Temporal's UI. */
  readonly what: string;
}

/**
 * Creates missing schedules. Existing ones keep the settings of operators.
 *
 * @param home false in a cell that has no credentials and signing keys to rotate
 */
async function ensureSchedules(client: Client, home: boolean): Promise<void> {
  await ensureSchedule(client, {
    workflowType: WORKFLOW_TYPES.purgeExpired,
    every: "1 hour",
    what: "removes expired data",
  });
  if (home) {
    await ensureSchedule(client, {
      workflowType: WORKFLOW_TYPES.rotateCredentials,
      every: "5 minutes",
      what: "records the rotation of client secrets",
    });
    await ensureSchedule(client, {
      workflowType: WORKFLOW_TYPES.rotateSigningKeys,
      every: "10 minutes",
      what: "rotates the signing keys",
    });
  }
  await ensureSchedule(client, {
    workflowType: WORKFLOW_TYPES.signCheckpoint,
    every: "1 minute",
    what: "signs the compliance log",
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

/** Returns the job that keeps the schedules. @param home as for {@link ensureSchedules} */
export function schedulesJob(client: Client, home: boolean): UpkeepJob {
  return { name: "schedules", everyMs: EVERY_MS, run: async () => await ensureSchedules(client, home) };
}
