/** Starts `deliver` workflows for what the dispatcher has claimed. */
import { type Client, WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import {
  type DeliverInput,
  SEARCH_ATTRIBUTES,
  TASK_QUEUES,
  WORKFLOW_TYPES,
} from "../../workflows/messages.ts";
import type { Claimed } from "../database/repositories/carriers.ts";
import { drawOffsets, type Random } from "../domain/retry-schedule.ts";

export interface CarrierStarter {
  /**
   * Starts one carrier with all its members; a carrier that was started before is done.
   *
   * @throws when Temporal cannot be reached or refuses; the sweep tries again
   */
  start(carrier: string, members: readonly Claimed[]): Promise<void>;
}

export interface CarrierStarterOptions {
  readonly client: Client;
  readonly random: Random;
  readonly retryWindowMs: number;
  readonly deadLetterMs: number;
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)];
}

export function createCarrierStarter(options: CarrierStarterOptions): CarrierStarter {
  return {
    start: async (carrier, members) => {
      const input: DeliverInput = {
        v: 1,
        members: members.map((member) => ({ id: member.deliveryId, epoch: member.epoch })),
        offsets_ms: drawOffsets(options.retryWindowMs, options.random),
        dead_letter_ms: options.deadLetterMs,
      };
      try {
        await options.client.workflow.start(WORKFLOW_TYPES.deliver, {
          workflowId: carrier,
          taskQueue: TASK_QUEUES.deliveries,
          args: [input],
          requestEagerStart: true,
          // One id, one run, for ever: a later carrier of a delivery has an id of its own.
          workflowIdReusePolicy: "REJECT_DUPLICATE",
          workflowIdConflictPolicy: "FAIL",
          workflowTaskTimeout: "5 seconds",
          staticSummary: members.length === 1 ? "1 delivery" : `${members.length} deliveries`,
          typedSearchAttributes: [
            { key: SEARCH_ATTRIBUTES.tenant, value: distinct(members.map((member) => member.tenantId)) },
            { key: SEARCH_ATTRIBUTES.endpoint, value: distinct(members.map((member) => member.endpointId)) },
            { key: SEARCH_ATTRIBUTES.delivery, value: members.map((member) => member.deliveryId) },
            { key: SEARCH_ATTRIBUTES.state, value: "QUEUED" },
            { key: SEARCH_ATTRIBUTES.open, value: members.length },
            { key: SEARCH_ATTRIBUTES.attempt, value: 1 },
          ],
        });
      } catch (error) {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
          throw error;
        }
      }
    },
  };
}
