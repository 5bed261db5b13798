/** Starts `deliver` workflows for claimed deliveries. */
import { type Client, WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import type { Logger } from "pino";
import {
  type DeliverInput,
  SEARCH_ATTRIBUTES,
  TASK_QUEUES,
  WORKFLOW_TYPES,
} from "../../../workflows/messages.ts";
import type { Claimed, ClaimedRetry } from "../../database/repositories/webhooks/claims.ts";
import { drawOffsets, type Random } from "../../domain/retry-schedule.ts";
import type { AttemptService } from "./attempt-service.ts";
import type { AttemptRequest } from "./member-outcome.ts";

export interface CarrierStarter {
  /**
   * Starts a carrier for first attempts of all its members. Does nothing if the carrier was started before.
   *
   * @param slow whether the endpoint was recently slow or failing, so that no local activity waits for it
   * @throws if Temporal is unreachable or refuses; the sweep retries
   */
  startFirst(carrier: string, members: readonly Claimed[], slow: boolean): Promise<void>;
  /** Starts a carrier in mid-cycle. All its members belong to one endpoint. */
  startRetries(carrier: string, members: readonly ClaimedRetry[]): Promise<void>;
}

export interface CarrierStarterOptions {
  readonly client: Client;
  readonly random: Random;
  readonly retryWindowMs: number;
  readonly deadLetterMs: number;
  readonly attempts: AttemptService;
  readonly log: Logger;
}

interface Start {
  readonly carrier: string;
  readonly members: readonly Claimed[];
  readonly input: DeliverInput;
  readonly state: "QUEUED" | "RETRYING";
  readonly attempt: number;
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)];
}

/** Returns the carrier's summary for the UI, which the SDK writes into the history. */
function summaryOf(members: number, endpoints: readonly string[], attempt: number): string {
  const what = members === 1 ? "1 delivery" : `${members} deliveries`;
  const [endpoint] = endpoints;
  const where = endpoints.length === 1 ? endpoint : `${endpoints.length} endpoints`;
  return attempt === 1 ? `${what} to ${where}` : `${what} to ${where}, from attempt ${attempt}`;
}

/** @returns whether the first workflow task runs in this process */
async function start(client: Client, { carrier, members, input, state, attempt }: Start): Promise<boolean> {
  const tenants = distinct(members.map((member) => member.tenantId));
  const endpoints = distinct(members.map((member) => member.endpointId));
  const [tenant] = tenants;
  try {
    const handle = await client.workflow.start(WORKFLOW_TYPES.deliver, {
      workflowId: carrier,
      taskQueue: TASK_QUEUES.deliveries,
      args: [input],
      requestEagerStart: true,
      // Each id has one run. A later carrier of the same delivery gets its own id.
      workflowIdReusePolicy: "REJECT_DUPLICATE",
      workflowIdConflictPolicy: "FAIL",
      workflowTaskTimeout: "5 seconds",
      staticSummary: summaryOf(members.length, endpoints, attempt),
      ...(tenants.length === 1 && tenant !== undefined ? { priority: { fairnessKey: tenant } } : {}),
      typedSearchAttributes: [
        { key: SEARCH_ATTRIBUTES.tenant, value: tenants },
        { key: SEARCH_ATTRIBUTES.endpoint, value: endpoints },
        { key: SEARCH_ATTRIBUTES.delivery, value: members.map((member) => member.deliveryId) },
        { key: SEARCH_ATTRIBUTES.state, value: state },
        { key: SEARCH_ATTRIBUTES.open, value: members.length },
        { key: SEARCH_ATTRIBUTES.attempt, value: attempt },
      ],
    });
    return handle.eagerlyStarted;
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
      throw error;
    }
    return false;
  }
}

/** Returns the same request that `deliver` passes to its first activity. */
function firstAttempts(carrier: string, input: DeliverInput): AttemptRequest {
  return {
    carrier,
    members: input.members,
    plan: {
      attempt: 1,
      offsetsMs: input.offsets_ms,
      anchorMs: null,
      dueMs: null,
      deadLetterMs: input.dead_letter_ms,
      part: input.mixed === true,
    },
    firstPass: true,
  };
}

export function createCarrierStarter(options: CarrierStarterOptions): CarrierStarter {
  const { client, random, retryWindowMs, deadLetterMs, attempts, log } = options;

  function inputOf(members: readonly Claimed[]): DeliverInput {
    return {
      v: 1,
      members: members.map((member) => ({ id: member.deliveryId, epoch: member.epoch })),
      offsets_ms: drawOffsets(retryWindowMs, random),
      dead_letter_ms: deadLetterMs,
    };
  }

  return {
    startFirst: async (carrier, members, slow) => {
      const mixed = distinct(members.map((member) => member.endpointId)).length > 1;
      const input = { ...inputOf(members), ...(mixed ? { mixed } : {}), ...(slow ? { slow } : {}) };
      const eager = await start(client, { carrier, members, input, state: "QUEUED", attempt: 1 });
      if (eager && !slow) {
        // The workflow's first task runs in this process, too. The requests leave before it asks for them. Its activity
        // joins them, and handles any failure.
        attempts.run(firstAttempts(carrier, input)).catch((error: unknown) => {
          log.debug({ err: error, carrier }, "first attempts were not begun early");
        });
      }
    },
    startRetries: async (carrier, members) => {
      const attempts = Math.max(0, ...members.map((member) => member.attemptCount));
      const input: DeliverInput = {
        ...inputOf(members),
        progress: {
          anchor_ms: Math.min(...members.map((member) => member.cycleStartedAt.getTime())),
          members: members.map((member) => ({
            attempts: member.attemptCount,
            phase: "RETRYING",
            due_ms: member.nextAttemptAt.getTime(),
          })),
        },
      };
      await start(client, { carrier, members, input, state: "RETRYING", attempt: attempts + 1 });
    },
  };
}
