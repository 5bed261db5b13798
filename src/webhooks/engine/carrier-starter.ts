/** Starts `deliver` workflows for claimed deliveries. */
import { type Client, WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import {
  type DeliverInput,
  SEARCH_ATTRIBUTES,
  TASK_QUEUES,
  WORKFLOW_TYPES,
} from "../../../workflows/messages.ts";
import type { Claimed } from "../../database/repositories/webhooks/claims.ts";
import type { ClaimedRetry } from "../../database/repositories/webhooks/list-claims.ts";
import { drawOffsets, type Random } from "../../domain/retry-schedule.ts";
import type { AttemptRequest } from "./member-outcome.ts";

export interface CarrierStarter {
  /** Draws the offsets of a carrier's attempts, in milliseconds. */
  draw(): readonly number[];
  /**
   * Returns the request for the first attempts of claimed deliveries, as the carrier's first activity will make it.
   *
   * @param leaves decides whether a failed member leaves the carrier
   */
  firstAttempts(
    carrier: string,
    members: readonly Claimed[],
    draw: readonly number[],
    leaves: (endpointId: string) => boolean,
  ): AttemptRequest;
  /**
   * Starts a carrier for first attempts of all its members. Does nothing if the carrier was started before.
   *
   * @param draw the offsets of {@link draw}; drawn now by default
   * @returns whether this call started it
   * @throws if Temporal is unreachable or refuses; the sweep retries
   */
  startFirst(carrier: string, members: readonly Claimed[], draw?: readonly number[]): Promise<boolean>;
  /**
   * Returns those of the members that a carrier was started without. They joined its list too late.
   *
   * @throws if Temporal is unreachable, or has no such workflow
   */
  unknownTo(carrier: string, members: readonly Claimed[]): Promise<readonly Claimed[]>;
  /** Starts a carrier for first attempts to a slow or failing endpoint, for which no local activity waits. */
  startSlow(carrier: string, members: readonly Claimed[]): Promise<void>;
  /** Starts a carrier in mid-cycle. All its members belong to one endpoint. */
  startRetries(carrier: string, members: readonly ClaimedRetry[]): Promise<void>;
}

export interface CarrierStarterOptions {
  readonly client: Client;
  readonly random: Random;
  readonly retryWindowMs: number;
  readonly deadLetterMs: number;
  /**
   * Whether this process may run the workflow's first task at once, without a poll. With Worker Versioning it may not:
   * such a task would not follow the routing to the current version.
   */
  readonly eager: boolean;
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

/** @returns false if the carrier was started before */
async function start(
  { client, eager }: Pick<CarrierStarterOptions, "client" | "eager">,
  { carrier, members, input, state, attempt }: Start,
): Promise<boolean> {
  const tenants = distinct(members.map((member) => member.tenantId));
  const endpoints = distinct(members.map((member) => member.endpointId));
  const [tenant] = tenants;
  try {
    await client.workflow.start(WORKFLOW_TYPES.deliver, {
      workflowId: carrier,
      taskQueue: TASK_QUEUES.deliveries,
      args: [input],
      requestEagerStart: eager,
      // Each id has one run. A later carrier of the same delivery gets its own id.
      workflowIdReusePolicy: "REJECT_DUPLICATE",
      workflowIdConflictPolicy: "FAIL",
      workflowTaskTimeout: "5 seconds",
      staticSummary: summaryOf(members.length, endpoints, attempt),
      ...(tenants.length === 1 && tenant !== undefined ? { priority: { fairnessKey: tenant } } : {}),
      typedSearchAttributes: [
        // A signal to all workflows of an endpoint or a tenant must not reach others, so mixed lists have neither.
        ...(endpoints.length === 1
          ? [
              { key: SEARCH_ATTRIBUTES.tenant, value: tenants },
              { key: SEARCH_ATTRIBUTES.endpoint, value: endpoints },
            ]
          : []),
        { key: SEARCH_ATTRIBUTES.delivery, value: members.map((member) => member.deliveryId) },
        { key: SEARCH_ATTRIBUTES.state, value: state },
        { key: SEARCH_ATTRIBUTES.open, value: members.length },
        { key: SEARCH_ATTRIBUTES.attempt, value: attempt },
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

function named(members: readonly Claimed[]): DeliverInput["members"] {
  return members.map((member) => ({ id: member.deliveryId, epoch: member.epoch }));
}

export function createCarrierStarter(options: CarrierStarterOptions): CarrierStarter {
  const { client, random, retryWindowMs, deadLetterMs } = options;
  const draw = (): readonly number[] => drawOffsets(retryWindowMs, random);

  function inputOf(members: readonly Claimed[], offsets: readonly number[] = draw()): DeliverInput {
    return { v: 1, members: named(members), offsets_ms: offsets, dead_letter_ms: deadLetterMs };
  }

  async function startFirst(
    carrier: string,
    members: readonly Claimed[],
    input: DeliverInput,
  ): Promise<boolean> {
    const mixed = distinct(members.map((member) => member.endpointId)).length > 1;
    const whole = { ...input, ...(mixed ? { mixed } : {}) };
    return await start(options, { carrier, members, input: whole, state: "QUEUED", attempt: 1 });
  }

  return {
    draw,
    firstAttempts: (carrier, members, offsetsMs, leaves) => ({
      carrier,
      members: named(members),
      plan: { attempt: 1, offsetsMs, anchorMs: null, dueMs: null, deadLetterMs, leaves },
      firstPass: true,
    }),
    startFirst: async (carrier, members, offsets) =>
      await startFirst(carrier, members, inputOf(members, offsets)),
    unknownTo: async (carrier, members) => {
      const { typedSearchAttributes } = await client.workflow.getHandle(carrier).describe();
      const known = typedSearchAttributes.get(SEARCH_ATTRIBUTES.delivery);
      return known === undefined ? [] : members.filter(({ deliveryId }) => !known.includes(deliveryId));
    },
    startSlow: async (carrier, members) => {
      await startFirst(carrier, members, { ...inputOf(members), slow: true });
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
      await start(options, { carrier, members, input, state: "RETRYING", attempt: attempts + 1 });
    },
  };
}
