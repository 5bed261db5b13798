/**
 * Keeps the dead-letter queue in Temporal the same as in PostgreSQL, which is the source of truth. Each round compares a
 * part of both: carriers of dead letters with the open workflows that have any, and the reverse. Visibility is only a
 * hint, so a carrier that differs is asked by id. Dead letters whose workflow is gone, or does not know them, wait for
 * another one.
 */
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import {
  attemptNowSignal,
  type MemberStatus,
  releaseSignal,
  SEARCH_ATTRIBUTES,
  statusQuery,
  WORKFLOW_TYPES,
} from "#workflows/messages.ts";
import type { Pool } from "#database/pool.ts";
import {
  type CarrierOfLetters,
  countUncarriedLetters,
  findCarriersOfLetters,
  findLettersOf,
  type LetterOfCarrier,
  lettersOfCarriers,
  takeFromCarrier,
} from "#database/repositories/webhooks/reconciliation.ts";
import type { Clock } from "#domain/clock.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { lookUp, lookUpEach, OPEN } from "#temporal/open-workflow.ts";
import { VIEWS } from "#temporal/views.ts";
import type { Presence } from "./presence.ts";
import { RECONCILE_MS } from "./reconciler.ts";

/** Most of a round: a million dead letters, or 24,000 workflows, are compared within two minutes. */
const LETTERS_MAX = 50_000;
const CARRIERS_MAX = 1_000;
/** Workflow ids in a query of visibility. */
const NAMED_AT_ONCE = 100;
/** Dead letters without a carrier for this long are counted; before, they are collected for lists. */
export const UNCARRIED_AFTER_MS = 60_000;
/** A claim of dead letters whose workflow is not known after this time never got one. Longer than its starter tries. */
const CLAIM_SETTLES_MS = 75_000;
/** Shortly after its death a dead letter is on its way, and shortly before its end it is about to leave. */
const MOVES_MS = 10_000;
const SERVICE = { by: "reconciler" };

/** How a carrier differs from the rows. */
export interface LetterDifference {
  readonly carrier: string;
  /** Dead letters that it does not carry. */
  readonly lost: readonly LetterOfCarrier[];
  /** Members that it takes for dead letters, but that are none of its. */
  readonly ghosts: readonly string[];
  /** Dead letters for which it waits to make an attempt. */
  readonly retried: readonly string[];
  /** Whether it is a run of 0.3.0, which does not say how many dead letters it has. */
  readonly silent: boolean;
}

export interface LetterReconcilerOptions {
  readonly pool: Pool;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Workflow {
  readonly type: string;
  /** Of its latest run. */
  readonly startedAt: Date;
  readonly members: readonly MemberStatus[];
}

export class LetterReconciler {
  readonly #options: LetterReconcilerOptions;
  #afterCarrier = "";
  #pageToken: Uint8Array = new Uint8Array();
  /** Dead letters without an open workflow in the pass under way, and in the last one. */
  #found = 0;
  #uncarried = 0;

  constructor(options: LetterReconcilerOptions) {
    this.#options = options;
  }

  /** Returns the job that reconciles. One worker does: Temporal limits how often a namespace is searched. */
  job(presence: Pick<Presence, "first">): UpkeepJob {
    return {
      name: "reconciliation of dead letters",
      everyMs: RECONCILE_MS,
      run: async () => metrics.uncarriedDeadLetters.set(presence.first ? await this.reconcile() : 0),
    };
  }

  /**
   * Runs one round.
   *
   * @returns the number of dead letters that were in no open workflow in the last pass over all of them
   * @throws if the database or Temporal is unavailable; nothing was moved on a guess then
   */
  async reconcile(): Promise<number> {
    const differences = await this.differences();
    for (const difference of differences) {
      await this.#settle(difference);
    }
    this.#found += differences.reduce((sum, { lost }) => sum + lost.length, 0);
    if (this.#afterCarrier === "") {
      const { pool, clock } = this.#options;
      this.#uncarried =
        this.#found + (await countUncarriedLetters(pool, new Date(clock.now() - UNCARRIED_AFTER_MS)));
      this.#found = 0;
    }
    return this.#uncarried;
  }

  /** Compares the next part, and changes nothing. */
  async differences(): Promise<readonly LetterDifference[]> {
    const { pool } = this.#options;
    const page = { letters: LETTERS_MAX, carriers: CARRIERS_MAX };
    const carriers = await findCarriersOfLetters(pool, { ...page, after: this.#afterCarrier });
    this.#afterCarrier = carriers.next;
    const suspects = new Set([...(await this.#notListed(carriers.found)), ...(await this.#listedOthers())]);
    const examined = await lookUpEach([...suspects], async (carrier) => await this.#examine(carrier));
    return examined.filter((difference) => difference !== undefined);
  }

  /** Returns carriers that visibility does not show as open with as many dead letters. */
  async #notListed(carriers: readonly CarrierOfLetters[]): Promise<string[]> {
    const { client } = this.#options;
    const different: string[] = [];
    for (let from = 0; from < carriers.length; from += NAMED_AT_ONCE) {
      const named = carriers.slice(from, from + NAMED_AT_ONCE);
      const ids = named.map(({ carrier }) => `"${carrier}"`).join(",");
      const dead = new Map<string, number | undefined>();
      const query = `${OPEN} AND WorkflowId IN (${ids})`;
      for await (const { workflowId, typedSearchAttributes } of client.workflow.list({ query })) {
        dead.set(workflowId, typedSearchAttributes.get(SEARCH_ATTRIBUTES.dead));
      }
      different.push(
        ...named
          .filter(({ carrier, letters }) => dead.get(carrier) !== letters)
          .map(({ carrier }) => carrier),
      );
    }
    return different;
  }

  /** Returns open workflows of the next page that have another number of dead letters than the rows say. */
  async #listedOthers(): Promise<string[]> {
    const { client, pool } = this.#options;
    const { executions, nextPageToken } = await client.workflowService.listWorkflowExecutions({
      namespace: client.options.namespace,
      query: VIEWS.deadLetters.query,
      pageSize: CARRIERS_MAX,
      nextPageToken: this.#pageToken,
    });
    this.#pageToken = nextPageToken;
    const dead = executions.flatMap(({ execution, searchAttributes }) => {
      const { data } = searchAttributes?.indexedFields?.[SEARCH_ATTRIBUTES.dead.name] ?? {};
      const count = Number(Buffer.from(data ?? []).toString());
      return typeof execution?.workflowId === "string" ? [[execution.workflowId, count] as const] : [];
    });
    const letters = await lettersOfCarriers(
      pool,
      dead.map(([carrier]) => carrier),
    );
    return dead
      .filter(([carrier, count]) => (letters.get(carrier) ?? 0) !== count)
      .map(([carrier]) => carrier);
  }

  async #examine(carrier: string): Promise<LetterDifference | undefined> {
    const { pool, clock, log } = this.#options;
    const nowMs = clock.now();
    try {
      const workflow = await this.#look(carrier);
      if (workflow === "paused") {
        return undefined;
      }
      // After the workflow: a dead letter that leaves meanwhile is no ghost, it is gone.
      const letters = await findLettersOf(pool, carrier);
      const settled = letters.filter(
        (letter) =>
          letter.dead_lettered_at.getTime() < nowMs - MOVES_MS &&
          !isStarting(letter, workflow?.startedAt, nowMs),
      );
      const members = new Map(workflow?.members.map((member) => [member.delivery_id, member]));
      const stateOf = ({ delivery_id: deliveryId }: LetterOfCarrier): MemberStatus["state"] =>
        members.get(deliveryId)?.state ?? "DONE";
      const own = new Set(letters.map((letter) => letter.delivery_id));
      const difference = {
        carrier,
        lost: settled.filter((letter) => stateOf(letter) === "DONE"),
        retried: settled
          .filter((letter) => ["QUEUED", "RETRYING"].includes(stateOf(letter)))
          .map((letter) => letter.delivery_id),
        ghosts: [...members.values()]
          .filter((member) => !own.has(member.delivery_id) && isLetter(member, nowMs + MOVES_MS))
          .map((member) => member.delivery_id),
        silent: workflow?.type === WORKFLOW_TYPES.deliver && members.size > 0 && settled.length > 0,
      };
      const { lost, retried, ghosts, silent } = difference;
      return lost.length + retried.length + ghosts.length > 0 || silent ? difference : undefined;
    } catch (error) {
      log.warn({ err: error, carrier }, "a workflow with dead letters could not be examined");
      return undefined;
    }
  }

  /**
   * Asks a workflow by its id, which is consistent. Undefined if there is none; without members if it has ended. A paused
   * one does not answer, and keeps its dead letters.
   */
  async #look(carrier: string): Promise<Workflow | "paused" | undefined> {
    const { client } = this.#options;
    const { isOpen, pause, described } = await lookUp(client, carrier);
    if (pause !== undefined) {
      return "paused";
    }
    const { members } = isOpen
      ? await client.workflow.getHandle(carrier).query(statusQuery)
      : { members: [] };
    return described && { type: described.type, startedAt: described.startTime, members };
  }

  async #settle({ carrier, lost, ghosts, retried, silent }: LetterDifference): Promise<void> {
    const { pool, client, log } = this.#options;
    const handle = client.workflow.getHandle(carrier);
    if (lost.length > 0) {
      const moved = await takeFromCarrier(
        pool,
        lost.map((letter) => ({ ...letter, carrier })),
      );
      // Otherwise another worker has taken them.
      if (moved > 0) {
        const ids = lost.map((letter) => letter.delivery_id);
        log.error(
          { carrier, delivery_ids: ids, moved },
          "dead letters have no workflow; another one gets them",
        );
      }
    }
    if (retried.length > 0) {
      await handle.signal(attemptNowSignal, { delivery_ids: retried, ...SERVICE });
    }
    if (ghosts.length > 0 || silent) {
      await handle.signal(releaseSignal, { delivery_ids: ghosts, ...SERVICE });
    }
  }
}

/** Whether the workflow of a dead letter may be about to start: it was claimed not long ago, and none began since. */
function isStarting(
  { dead_lettered_at: diedAt, claimed_at: claimedAt }: LetterOfCarrier,
  startedAt: Date | undefined,
  nowMs: number,
): boolean {
  const isClaimed =
    claimedAt !== null && claimedAt > diedAt && claimedAt.getTime() >= nowMs - CLAIM_SETTLES_MS;
  return isClaimed && (startedAt === undefined || startedAt < claimedAt);
}

/** Whether a workflow takes a member for a dead letter that stays beyond an instant. */
function isLetter({ state, expires_at: expires }: MemberStatus, untilMs: number): boolean {
  return state === "DEAD_LETTERED" && Date.parse(expires ?? "") > untilMs;
}
