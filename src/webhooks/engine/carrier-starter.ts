/** Starts `deliver` workflows for claimed deliveries. */
import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowExecutionDescription,
} from "@temporalio/client";
import type { SearchAttributePair } from "@temporalio/common";
import {
  type DeadLetterInput,
  type DeliverInput,
  SEARCH_ATTRIBUTES,
  TASK_QUEUES,
  WORKFLOW_TYPES,
} from "#workflows/messages.ts";
import type { Claimed } from "#database/repositories/webhooks/claims.ts";
import type { ClaimedLetter, ClaimedRetry } from "#database/repositories/webhooks/list-claims.ts";
import { answerOf } from "#domain/delivery.ts";
import { drawOffsets, type Random } from "#domain/retry-schedule.ts";
import type { AttemptRequest } from "./member-outcome.ts";

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
  readonly input: DeliverInput | DeadLetterInput;
  readonly type: "deliver" | "deadLetter";
  /** For the UI, which the SDK writes into the history. */
  readonly summary: string;
  readonly attributes: readonly SearchAttributePair[];
  /** Set if a closed workflow may have had the id: for a delivery that is carried alone again. */
  readonly again?: Memo | undefined;
}

/** What identifies a start of a delivery that is carried alone again, in its workflow's memo. */
interface Memo {
  /** The fence. */
  readonly epoch: number;
  /**
   * When its next attempt or its expiry is due, in Unix milliseconds. PostgreSQL may lose this claim, and come to the same
   * fence with another due time. Absent before 0.4.0.
   */
  readonly due_ms?: number;
}

/** Longer lists are found by their endpoint, not by each delivery. */
const FOUND_BY_DELIVERY_MAX = 64;

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)];
}

/** Returns what is carried, and where to. */
function summaryOf(members: readonly Claimed[], one: string, several: string): string {
  const endpoints = distinct(members.map((member) => member.endpoint_id));
  const where = endpoints.length === 1 ? endpoints.join("") : `${endpoints.length} endpoints`;
  return `${members.length} ${members.length === 1 ? one : several} to ${where}`;
}

/** Returns the part of a start that differs between first attempts and retries. */
function attempts(
  members: readonly Claimed[],
  state: "QUEUED" | "RETRYING",
  attempt: number,
): Pick<Start, "type" | "summary" | "attributes"> {
  const what = summaryOf(members, "delivery", "deliveries");
  return {
    type: "deliver",
    summary: attempt === 1 ? what : `${what}, from attempt ${attempt}`,
    attributes: [
      { key: SEARCH_ATTRIBUTES.state, value: state },
      { key: SEARCH_ATTRIBUTES.attempt, value: attempt },
    ],
  };
}

/** @returns false if the carrier was started before, or, with `again`, if another workflow has its id */
async function start(
  { client, eager }: Pick<CarrierStarterOptions, "client" | "eager">,
  { carrier, members, input, type, summary, attributes, again }: Start,
): Promise<boolean> {
  const tenants = distinct(members.map((member) => member.tenant_id));
  const endpoints = distinct(members.map((member) => member.endpoint_id));
  const [tenant] = tenants;
  try {
    await client.workflow.start(WORKFLOW_TYPES[type], {
      workflowId: carrier,
      taskQueue: TASK_QUEUES.deliveries,
      args: [input],
      requestEagerStart: eager,
      // The first list of an id is the only one. The fence guards a delivery that is carried alone again.
      workflowIdReusePolicy: again === undefined ? "REJECT_DUPLICATE" : "ALLOW_DUPLICATE",
      ...(again === undefined ? {} : { memo: { ...again } }),
      workflowIdConflictPolicy: "FAIL",
      workflowTaskTimeout: "5 seconds",
      staticSummary: summary,
      ...(tenants.length === 1 && tenant !== undefined ? { priority: { fairnessKey: tenant } } : {}),
      typedSearchAttributes: [
        // A signal to all workflows of an endpoint or a tenant must not reach others, so mixed lists have neither.
        ...(endpoints.length === 1
          ? [
              { key: SEARCH_ATTRIBUTES.tenant, value: tenants },
              { key: SEARCH_ATTRIBUTES.endpoint, value: endpoints },
            ]
          : []),
        ...(members.length <= FOUND_BY_DELIVERY_MAX
          ? [{ key: SEARCH_ATTRIBUTES.delivery, value: members.map((member) => member.delivery_id) }]
          : []),
        { key: SEARCH_ATTRIBUTES.open, value: members.length },
        ...attributes,
      ],
    });
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) {
      return (
        again !== undefined && isSameStart(memoOf(await client.workflow.getHandle(carrier).describe()), again)
      );
    }
    throw error;
  }
}

/** Returns the memo of a workflow that carries a delivery alone again; empty for others. */
function memoOf({ memo }: Pick<WorkflowExecutionDescription, "memo">): Partial<Memo> {
  return memo ?? {};
}

function isSameStart({ epoch, due_ms: dueMs }: Partial<Memo>, again: Memo): boolean {
  return epoch === again.epoch && (dueMs === undefined || dueMs === again.due_ms);
}

/**
 * Returns those of the members that a workflow was started without: it names others, or carries its only delivery with
 * another fence. A list that is too long to name its members is taken to know them all.
 */
export function unknownIn<T extends Pick<Claimed, "delivery_id" | "epoch">>(
  described: Pick<WorkflowExecutionDescription, "memo" | "typedSearchAttributes">,
  members: readonly T[],
): readonly T[] {
  const known = described.typedSearchAttributes.get(SEARCH_ATTRIBUTES.delivery);
  const fence = memoOf(described).epoch;
  return members.filter(
    ({ delivery_id: id, epoch }) =>
      (known !== undefined && !known.includes(id)) || (fence !== undefined && fence !== epoch),
  );
}

/** Returns what a workflow remembers of a delivery that it carries alone, under its id; undefined for a list. */
function aloneAgain(carrier: string, [first]: readonly Claimed[], dueMs: number): Memo | undefined {
  return first?.delivery_id === carrier ? { epoch: first.epoch, due_ms: dueMs } : undefined;
}

function named(members: readonly Claimed[]): DeliverInput["members"] {
  return members.map((member) => ({ id: member.delivery_id, epoch: member.epoch }));
}

/** Returns the start of a carrier of dead letters. */
function lettersStart(
  carrier: string,
  members: readonly ClaimedLetter[],
  deadLetterMs: number,
): Omit<Start, "carrier" | "members"> {
  const input: DeadLetterInput = {
    v: 1,
    letters: members.map((member) => [
      member.delivery_id,
      member.epoch,
      member.attempt_count,
      member.expires_at.getTime(),
      ...(member.attempt_count > 0 ? ([answerOf(member)] as const) : ([] as const)),
    ]),
    dead_letter_ms: deadLetterMs,
  };
  const firstMs = Math.min(...members.map((member) => member.expires_at.getTime()));
  return {
    input,
    type: "deadLetter",
    summary: summaryOf(members, "dead letter", "dead letters"),
    attributes: [
      { key: SEARCH_ATTRIBUTES.state, value: "DEAD_LETTERED" },
      { key: SEARCH_ATTRIBUTES.dead, value: members.length },
      { key: SEARCH_ATTRIBUTES.expires, value: new Date(firstMs) },
    ],
    again: aloneAgain(carrier, members, firstMs),
  };
}

export class CarrierStarter {
  readonly #options: CarrierStarterOptions;

  constructor(options: CarrierStarterOptions) {
    this.#options = options;
  }

  /** Draws the offsets of a carrier's attempts, in milliseconds. */
  draw(): readonly number[] {
    return drawOffsets(this.#options.retryWindowMs, this.#options.random);
  }

  /**
   * Returns the request for the first attempts of claimed deliveries, as the carrier's first activity will make it.
   *
   * @param leaves decides whether a failed member leaves the carrier
   */
  firstAttempts(
    carrier: string,
    members: readonly Claimed[],
    offsetsMs: readonly number[],
    leaves: (endpointId: string) => boolean,
  ): AttemptRequest {
    const { deadLetterMs } = this.#options;
    return {
      carrier,
      members: named(members),
      plan: { attempt: 1, offsetsMs, anchorMs: null, dueMs: null, deadLetterMs, leaves },
      firstPass: true,
    };
  }

  /**
   * Starts a carrier for first attempts of all its members. Does nothing if the carrier was started before.
   *
   * @param offsets those of {@link draw}; drawn now by default
   * @returns whether this call started it
   * @throws if Temporal is unreachable or refuses; the sweep retries
   */
  async startFirst(
    carrier: string,
    members: readonly Claimed[],
    offsets?: readonly number[],
  ): Promise<boolean> {
    return await this.#startFirst(carrier, members, this.#inputOf(members, offsets));
  }

  /**
   * Returns those of the members that a carrier was started without, as {@link unknownIn} says.
   *
   * @throws if Temporal is unreachable, or has no such workflow
   */
  async unknownTo(carrier: string, members: readonly Claimed[]): Promise<readonly Claimed[]> {
    return unknownIn(await this.#options.client.workflow.getHandle(carrier).describe(), members);
  }

  /** Starts a carrier for first attempts to a slow or failing endpoint, for which no local activity waits. */
  async startSlow(carrier: string, members: readonly Claimed[]): Promise<void> {
    await this.#startFirst(carrier, members, { ...this.#inputOf(members), slow: true });
  }

  /** Starts a carrier in mid-cycle. All its members belong to one endpoint. @returns like {@link startLetters} */
  async startRetries(carrier: string, members: readonly ClaimedRetry[]): Promise<boolean> {
    const made = Math.max(0, ...members.map((member) => member.attempt_count));
    const firstMs = Math.min(...members.map((member) => member.next_attempt_at.getTime()));
    const input: DeliverInput = {
      ...this.#inputOf(members),
      progress: {
        anchor_ms: Math.min(...members.map((member) => member.cycle_started_at.getTime())),
        members: members.map((member) => ({
          attempts: member.attempt_count,
          phase: "RETRYING",
          due_ms: member.next_attempt_at.getTime(),
          ...(member.attempt_count > 0 ? { last: answerOf(member) } : {}),
        })),
      },
    };
    return await start(this.#options, {
      carrier,
      members,
      input,
      ...attempts(members, "RETRYING", made + 1),
      again: aloneAgain(carrier, members, firstMs),
    });
  }

  /**
   * Starts a carrier of dead letters. All its members belong to one endpoint.
   *
   * @returns false if another workflow has that id
   */
  async startLetters(carrier: string, members: readonly ClaimedLetter[]): Promise<boolean> {
    const letters = lettersStart(carrier, members, this.#options.deadLetterMs);
    return await start(this.#options, { carrier, members, ...letters });
  }

  #inputOf(members: readonly Claimed[], offsets: readonly number[] = this.draw()): DeliverInput {
    const { deadLetterMs } = this.#options;
    return { v: 1, members: named(members), offsets_ms: offsets, dead_letter_ms: deadLetterMs };
  }

  async #startFirst(carrier: string, members: readonly Claimed[], input: DeliverInput): Promise<boolean> {
    const mixed = distinct(members.map((member) => member.endpoint_id)).length > 1;
    const whole = { ...input, ...(mixed ? { mixed } : {}) };
    return await start(this.#options, { carrier, members, input: whole, ...attempts(members, "QUEUED", 1) });
  }
}
