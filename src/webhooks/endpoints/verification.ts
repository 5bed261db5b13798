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
} from "../../../workflows/messages.ts";
import type { WantedVerification } from "../../database/repositories/endpoints/endpoint-verifications.ts";
import type { Random } from "../../domain/retry-schedule.ts";

const MINUTE_S = 60;
const HOUR_S = 3_600;
/** When the pings of one run are due after its start, in seconds: the last one ends the window of 72 hours. */
const PING_OFFSETS_S = [
  0,
  10,
  30,
  2 * MINUTE_S,
  10 * MINUTE_S,
  30 * MINUTE_S,
  ...[1, 3, 6, 12, 24, 36, 48, 60, 72].map((hours) => hours * HOUR_S),
] as const;
/** A ping is sent earlier than that, by up to this share of the gap before it. */
const JITTER = 0.2;

/**
 * Draws the offsets of the pings of one run, in milliseconds from its start. They rise, and none lies beyond 72 hours.
 * The jitter keeps the endpoints of one receiver apart.
 */
export function drawPingOffsets(random: Random): number[] {
  return PING_OFFSETS_S.map((offset, index) => {
    const gap = offset - (PING_OFFSETS_S[index - 1] ?? 0);
    return Math.round(1_000 * (offset - JITTER * gap * random()));
  });
}

function inWords(seconds: number): string {
  if (seconds < MINUTE_S) {
    return `${seconds} s`;
  }
  return seconds < HOUR_S ? `${seconds / MINUTE_S} min` : `${seconds / HOUR_S} h`;
}

/** What Temporal's page of a run says of its schedule. */
export const PING_SCHEDULE = [
  `Pings the endpoint until it answers the challenge: at once, then ${PING_OFFSETS_S.slice(1, -1).map(inWords).join(", ")}`,
  `and ${PING_OFFSETS_S.slice(-1).map(inWords).join("")} after the start of this run,`,
  `each up to ${100 * JITTER} % of the gap before it earlier. The last ping ends the run.`,
].join(" ");

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
        staticDetails: PING_SCHEDULE,
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
  async function attemptNow({ id, generation }: WantedVerification): Promise<boolean> {
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
      if ((await start(wanted)) || (await attemptNow(wanted))) {
        return;
      }
      const generation = await nextGeneration();
      if (generation !== undefined) {
        await start({ ...wanted, generation });
      }
    },
  };
}
