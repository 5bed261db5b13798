/**
 * Starts and hastens verification runs. The wish is in the endpoint's row first; whoever kicks, the api right after its
 * commit or the worker's sweep, comes to the same run.
 */
import { type Client, WorkflowExecutionAlreadyStartedError, WorkflowNotFoundError } from "@temporalio/client";
import {
  attemptNowSignal,
  SEARCH_ATTRIBUTES,
  TASK_QUEUES,
  type VerifyEndpointInput,
  verifyWorkflowId,
  WORKFLOW_TYPES,
} from "../../workflows/messages.ts";
import type { WantedVerification } from "../database/repositories/endpoint-verifications.ts";
import type { Random } from "../domain/retry-schedule.ts";

/** Pings of one run after the first, which is at 0: 10 s to 24 h, then the window of 72 h is over. */
const PING_OFFSETS_MS = [10, 30, 120, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400].map(
  (seconds) => seconds * 1_000,
);
const JITTER = 0.2;

/** Offsets of the pings of one run, ±20 % so that endpoints of one receiver do not come together. */
function drawPingOffsets(random: Random): number[] {
  return [0, ...PING_OFFSETS_MS.map((offset) => Math.round(offset * (1 + JITTER * (2 * random() - 1))))];
}

/** Counts the endpoint's generation up in its row; undefined when it does not wait for verification any more. */
export type NextGeneration = () => Promise<number | undefined>;

export interface Verification {
  /**
   * Makes a ping happen now: starts the run, or hastens the one that is open, or starts the next generation when it
   * has closed.
   *
   * @throws when Temporal cannot be reached; the sweep kicks again
   */
  kick(wanted: WantedVerification, nextGeneration: NextGeneration): Promise<void>;
}

export function createVerification(client: Client, random: Random): Verification {
  async function start({ id, tenantId, generation }: WantedVerification): Promise<boolean> {
    const input: VerifyEndpointInput = {
      v: 1,
      endpoint_id: id,
      generation,
      offsets_ms: drawPingOffsets(random),
    };
    try {
      await client.workflow.start(WORKFLOW_TYPES.verifyEndpoint, {
        workflowId: verifyWorkflowId(id, generation),
        taskQueue: TASK_QUEUES.control,
        args: [input],
        workflowIdReusePolicy: "REJECT_DUPLICATE",
        workflowIdConflictPolicy: "FAIL",
        staticSummary: `verification of ${id}${generation > 1 ? `, run ${generation}` : ""}`,
        staticDetails:
          "Pings the endpoint until it answers the challenge: at once, then 10 s to 24 h apart, for 72 hours at most.",
        typedSearchAttributes: [
          { key: SEARCH_ATTRIBUTES.tenant, value: [tenantId] },
          { key: SEARCH_ATTRIBUTES.endpoint, value: [id] },
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

  /** False when the run has closed. */
  async function hasten({ id, generation }: WantedVerification): Promise<boolean> {
    try {
      await client.workflow.getHandle(verifyWorkflowId(id, generation)).signal(attemptNowSignal);
      return true;
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) {
        return false;
      }
      throw error;
    }
  }

  return {
    kick: async (wanted, nextGeneration) => {
      if ((await start(wanted)) || (await hasten(wanted))) {
        return;
      }
      const generation = await nextGeneration();
      if (generation !== undefined) {
        await start({ ...wanted, generation });
      }
    },
  };
}
