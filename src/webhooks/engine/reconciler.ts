/**
 * PostgreSQL is the source of truth for accepted deliveries. The reconciler looks up the carrier of each overdue
 * delivery. If the workflow is unknown or closed, or does not know them, its deliveries are released and carried again
 * from their rows. An open workflow is signalled and reported, but keeps the deliveries that it retries. A paused one is
 * only reported. So no delivery is ever carried twice.
 */
import type { Client, WorkflowExecutionDescription } from "@temporalio/client";
import type { Logger } from "pino";
import { attemptNowSignal, statusQuery, WORKFLOW_TYPES } from "#workflows/messages.ts";
import type { Pool } from "#database/pool.ts";
import {
  findOverdue,
  type OverdueDelivery,
  takeFromCarrier,
} from "#database/repositories/webhooks/reconciliation.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock } from "#domain/clock.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { lookUp, lookUpEach, type Pause } from "#temporal/open-workflow.ts";
import { byCarrier } from "./by-carrier.ts";
import { unknownIn } from "./carrier-starter.ts";
import { START_ENDS_MS } from "./starts.ts";

export const RECONCILE_MS = 5_000;
/** Longer than an attempt with all its waits. */
const OVERDUE_AFTER_MS = 60_000;
/** Shorter than the dispatcher's sweep, which renews claims without an outcome. */
export const CLAIM_SETTLES_MS = 10_000;
const DELIVERIES_MAX = 5_000;
/** Minimum interval between signals to the same carrier. */
const NUDGE_AGAIN_MS = 300_000;
const NUDGED_MAX = 10_000;

export interface Reconciliation {
  /** Number of deliveries taken from carriers that are gone. */
  readonly moved: number;
  /** Number of deliveries whose carrier is open and late. */
  readonly late: number;
}

export interface ReconcilerOptions {
  readonly pool: Pool;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Returns those that an open workflow will not attempt: it does not know them, or has dead letters only. */
function notIn(
  described: WorkflowExecutionDescription,
  members: readonly OverdueDelivery[],
): readonly OverdueDelivery[] {
  return described.type === WORKFLOW_TYPES.deadLetter ? members : unknownIn(described, members);
}

export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #nudged = new Map<string, number>();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  /** The job that gives overdue deliveries a new workflow if theirs is gone. */
  get job(): UpkeepJob {
    return {
      name: "reconciliation",
      everyMs: RECONCILE_MS,
      run: async () => {
        const { moved, late } = await this.reconcile();
        metrics.movedDeliveries.inc(moved);
        metrics.lateDeliveries.set(late);
      },
    };
  }

  /** Runs one round. @throws if the database or Temporal is unavailable; no delivery was moved on a guess then */
  async reconcile(): Promise<Reconciliation> {
    const { pool, clock } = this.#options;
    const now = clock.now();
    const overdue = await findOverdue(pool, {
      before: new Date(now - OVERDUE_AFTER_MS),
      claimedBefore: new Date(now - CLAIM_SETTLES_MS),
      now: new Date(now),
      limit: DELIVERIES_MAX,
    });
    const carriers = [...byCarrier(overdue)];
    const results = await lookUpEach(
      carriers,
      async ([carrier, members]) => await this.#settle(carrier, members),
    );
    return {
      moved: results.reduce((sum, { moved }) => sum + moved, 0),
      late: results.reduce((sum, { late }) => sum + late, 0),
    };
  }

  async #settle(carrier: string, members: readonly OverdueDelivery[]): Promise<Reconciliation> {
    const { pool, client, log } = this.#options;
    const { isOpen, pause, described } = await lookUp(client, carrier);
    if (described === undefined && this.#mayBeStarting(members)) {
      return { moved: 0, late: 0 };
    }
    const unknown = isOpen && described !== undefined ? notIn(described, members) : members;
    const known = members.filter((member) => !unknown.includes(member));
    const left = [...unknown, ...(await this.#nudge(carrier, { members: known, pause }))];
    if (left.length === 0) {
      return { moved: 0, late: members.length };
    }
    const moved = await takeFromCarrier(pool, left);
    const ids = left.map((member) => member.delivery_id);
    const fields = { carrier, delivery_ids: ids, moved };
    if (moved === 0) {
      log.debug(fields, "another process has taken the deliveries of a carrier that is gone");
    } else if (described === undefined && left.every(({ state }) => state === "QUEUED")) {
      log.warn(fields, "Temporal does not know a carrier; its first attempts are carried again");
    } else {
      log.error(fields, "a carrier is gone or does not know its deliveries; they are carried again");
    }
    return { moved, late: members.length - left.length };
  }

  /** A start that Temporal answers slowly goes on in its worker. Another carrier would be one more to start. */
  #mayBeStarting(members: readonly OverdueDelivery[]): boolean {
    const since = this.#options.clock.now() - START_ENDS_MS;
    return members.some((member) => member.claimed_at !== null && member.claimed_at.getTime() > since);
  }

  /**
   * Signals an open workflow. Deliveries of a slow endpoint are late because of its queue, so signals would not help them.
   * A paused workflow would get the signals all at once when it is unpaused.
   *
   * @returns those that it does not retry: PostgreSQL was put back to a time before they left or died
   */
  async #nudge(
    carrier: string,
    { members, pause }: { readonly members: readonly OverdueDelivery[]; readonly pause: Pause | undefined },
  ): Promise<readonly OverdueDelivery[]> {
    const { client, clock, log } = this.#options;
    const now = clock.now();
    const late = members.filter((member) => !member.slow && member.state === "RETRYING");
    if (late.length === 0 || (this.#nudged.get(carrier) ?? 0) > now - NUDGE_AGAIN_MS) {
      return [];
    }
    putBounded(this.#nudged, carrier, now, NUDGED_MAX);
    const ids = late.map((member) => member.delivery_id);
    if (pause !== undefined) {
      log.warn(
        { carrier, delivery_ids: ids, since: pause.since, reason: pause.reason },
        "deliveries are overdue because their workflow is paused",
      );
      return [];
    }
    log.warn({ carrier, delivery_ids: ids }, "deliveries are overdue although their workflow is open");
    const others = await this.#notRetried(carrier, late);
    const retried = ids.filter((id) => others.every((member) => member.delivery_id !== id));
    if (retried.length > 0) {
      await client.workflow
        .getHandle(carrier)
        .signal(attemptNowSignal, { delivery_ids: retried, by: "reconciler" });
    }
    return others;
  }

  /** A workflow whose tasks fail does not answer. It keeps its deliveries, since it may go on later. */
  async #notRetried(carrier: string, late: readonly OverdueDelivery[]): Promise<readonly OverdueDelivery[]> {
    try {
      const { members } = await this.#options.client.workflow.getHandle(carrier).query(statusQuery);
      const retried = new Set(
        members
          .filter(({ state }) => state === "QUEUED" || state === "RETRYING")
          .map((member) => member.delivery_id),
      );
      return late.filter((member) => !retried.has(member.delivery_id));
    } catch (error) {
      this.#options.log.debug({ err: error, carrier }, "a late workflow did not answer");
      return [];
    }
  }
}
