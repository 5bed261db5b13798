/**
 * Starts verification runs and requests pings of open runs. The endpoint's row is written first. The API after its
 * commit and the worker's sweep therefore reach the same run.
 */
import { type Client, WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import {
  attemptNowSignal,
  SEARCH_ATTRIBUTES,
  TASK_QUEUES,
  type VerifyEndpointInput,
  verifyWorkflowId,
  WORKFLOW_TYPES,
} from "#workflows/messages.ts";
import type { WantedVerification } from "#database/repositories/endpoints/endpoint-verifications.ts";
import type { Random } from "#domain/retry-schedule.ts";
import { PacedTurns } from "#runtime/paced-turns.ts";
import { signalOpen } from "#temporal/open-workflow.ts";
import type { Timers } from "#domain/clock.ts";

const MINUTE_S = 60;
const HOUR_S = 3_600;
/** Times of the pings after the start of a run, in seconds. The last ping ends the window of 72 hours. */
const PING_OFFSETS_S = [
  0,
  10,
  30,
  2 * MINUTE_S,
  10 * MINUTE_S,
  30 * MINUTE_S,
  ...[1, 3, 6, 12, 24, 36, 48, 60, 72].map((hours) => hours * HOUR_S),
] as const;
/** A ping is sent early by up to this share of the gap before it. */
const JITTER = 0.2;

/**
 * Draws the ping offsets of a run, in milliseconds from its start. They increase and never exceed 72 hours. The
 * jitter separates endpoints of the same receiver.
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

/** Schedule on the run's page in the Temporal UI. */
export const PING_SCHEDULE = [
  `Pings the endpoint until it answers the challenge: at once, then ${PING_OFFSETS_S.slice(1, -1).map(inWords).join(", ")}`,
  `and ${PING_OFFSETS_S.slice(-1).map(inWords).join("")} after the start of this run,`,
  `each up to ${100 * JITTER} % of the gap before it earlier. The last ping ends the run.`,
].join(" ");

/** Increments the endpoint's generation in its row; undefined if it no longer waits for verification. */
export type NextGeneration = () => Promise<number | undefined>;

export interface Verification {
  /**
   * Causes a ping now: starts the run, signals the open run, or starts the next generation after the run has closed.
   *
   * @throws if Temporal is unreachable; the sweep retries
   */
  kick(wanted: WantedVerification, nextGeneration: NextGeneration): Promise<void>;
}

/** Kicks that wait for their turn: less than the sweep's patience, so that it repeats none of them. */
const WAITING_SECONDS = 8;

/**
 * Spreads kicks over time, tenants in turns: a run takes about 80 ms of CPU, so a hundred at once would delay everything
 * else by seconds. The sweep repeats a kick that would wait for too long.
 */
export function createPacedVerification(
  verification: Verification,
  perSecond: number,
  timers: Timers,
): Verification & { stop(): void } {
  const waitingMax = perSecond * WAITING_SECONDS;
  const turns = new PacedTurns({ perSecond, burst: perSecond, waitingMax, timers });
  return {
    kick: async (wanted, nextGeneration) => {
      if (await turns.take(wanted.tenant_id)) {
        await verification.kick(wanted, nextGeneration);
      }
    },
    stop: () => turns.stop(),
  };
}

export function createVerification(client: Client, random: Random): Verification {
  async function start({ id, tenant_id: tenantId, generation }: WantedVerification): Promise<boolean> {
    const input: VerifyEndpointInput = {
      v: 2,
      endpoint_id: id,
      generation,
      offsets_ms: drawPingOffsets(random),
    };
    try {
      await client.workflow.start(WORKFLOW_TYPES.verifyEndpoint, {
        workflowId: verifyWorkflowId(id, generation),
        taskQueue: TASK_QUEUES.verification,
        priority: { fairnessKey: tenantId },
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

  /** Returns false if the run has closed. The sweep repeats it until a ping is recorded. */
  async function attemptNow({ id, generation }: WantedVerification): Promise<boolean> {
    return await signalOpen(client, verifyWorkflowId(id, generation), {
      name: attemptNowSignal.name,
      repeated: true,
    });
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
