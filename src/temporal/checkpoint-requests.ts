/** Requests a checkpoint soon after each revocation. The revocation does not wait for it. */
import { type Client, WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import { TASK_QUEUES, WORKFLOW_TYPES } from "#workflows/messages.ts";
import type { Logger } from "#observability/logger.ts";
import { Sleeper } from "#runtime/sleeper.ts";
import type { Timers } from "#domain/clock.ts";

/** A burst of revocations gets one checkpoint at its start, and one for the rest. */
const PAUSE_MS = 500;

export interface CheckpointRequests {
  /** @param sequence number of the new revocation; undefined if some may have been missed */
  request(sequence: number | undefined): void;
  stop(): Promise<void>;
}

/**
 * Creates the requests of a worker. Every worker that learns of a revocation makes one. The revocation's number in
 * the workflow id admits only one of them. The schedule covers missed revocations.
 */
export function createCheckpointRequests(client: Client, timers: Timers, log: Logger): CheckpointRequests {
  const sleeper = new Sleeper(timers);
  let wanted: string | undefined;
  let running: Promise<void> | undefined;

  async function start(workflowId: string): Promise<void> {
    try {
      await client.workflow.start(WORKFLOW_TYPES.signCheckpoint, {
        workflowId,
        taskQueue: TASK_QUEUES.control,
        workflowIdReusePolicy: "REJECT_DUPLICATE",
        workflowExecutionTimeout: "3 hours",
        staticSummary: "checkpoint after a revocation",
        args: [],
      });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
        log.warn({ err: error }, "checkpoint could not be requested; the schedule will create one");
      }
    }
  }

  async function run(): Promise<void> {
    while (wanted !== undefined && !sleeper.stopped) {
      const workflowId = wanted;
      wanted = undefined;
      await start(workflowId);
      await sleeper.sleep(PAUSE_MS);
    }
    running = undefined;
  }

  return {
    request: (sequence) => {
      if (sequence === undefined || !Number.isSafeInteger(sequence)) {
        return;
      }
      wanted = `${WORKFLOW_TYPES.signCheckpoint}/${sequence}`;
      running ??= run();
    },
    stop: async () => {
      sleeper.stop();
      await running;
    },
  };
}
