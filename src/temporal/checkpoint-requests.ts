/** Asks for a checkpoint soon after each revocation, without the revocation waiting for it. */
import { type Client, WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import { TASK_QUEUES, WORKFLOW_TYPES } from "../../workflows/messages.ts";
import type { Logger } from "../observability/logger.ts";
import { Sleeper } from "../runtime/sleeper.ts";

/** A burst of revocations gets one checkpoint at its beginning and one for all the rest. */
const PAUSE_MS = 500;

export interface CheckpointRequests {
  /** @param sequence of the revocation that was heard of; undefined when some may have been missed */
  request(sequence: number | undefined): void;
  stop(): Promise<void>;
}

/**
 * Every worker that hears of a revocation asks; the number of the revocation in the workflow's id lets one of them
 * through. What nobody heard is covered by the schedule.
 */
export function createCheckpointRequests(client: Client, log: Logger): CheckpointRequests {
  const sleeper = new Sleeper();
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
        log.warn({ err: error }, "no checkpoint asked for; the schedule's will do");
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
