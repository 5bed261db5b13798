/**
 * Finds verifications whose workflow was ended by hand or lost with Temporal's data: their next ping is overdue, and
 * Temporal does not know an open workflow of their id. The sweep starts their next generation.
 */
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import { verifyWorkflowId } from "#workflows/messages.ts";
import type { Pool } from "#database/pool.ts";
import {
  findOverdueVerifications,
  type OverdueVerification,
  restartVerifications,
} from "#database/repositories/endpoints/endpoint-verifications.ts";
import type { Clock } from "#domain/clock.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { isOpen, lookUpEach } from "#temporal/open-workflow.ts";

const EVERY_MS = 15_000;
const AT_ONCE_MAX = 1_000;
/** Longer than a ping, and its retries in another worker. */
const OVERDUE_AFTER_MS = 60_000;

export interface LostVerificationsOptions {
  readonly pool: Pool;
  readonly client: Client;
  /** Maximum number of verifications per round. The next round goes on behind them, since open ones stay overdue. */
  readonly limit?: number;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Instants {
  /** Pings due before it are overdue. */
  readonly before: Date;
  readonly now: Date;
}

export class LostVerifications {
  readonly #options: LostVerificationsOptions;
  #after: OverdueVerification | undefined;

  constructor(options: LostVerificationsOptions) {
    this.#options = options;
  }

  /** The job that restarts them. */
  get job(): UpkeepJob {
    return { name: "lost verifications", everyMs: EVERY_MS, run: async () => await this.restart() };
  }

  /**
   * Runs one round.
   *
   * @returns the number of verifications that go on in another workflow
   * @throws if the database or Temporal is unavailable; nothing was restarted on a guess then
   */
  async restart(): Promise<number> {
    const { pool, limit = AT_ONCE_MAX, clock } = this.#options;
    const nowMs = clock.now();
    const instants = { before: new Date(nowMs - OVERDUE_AFTER_MS), now: new Date(nowMs) };
    const overdue = await findOverdueVerifications(pool, { ...instants, after: this.#after, limit });
    const restarted = await this.#settle(overdue, instants);
    this.#after = overdue.length < limit ? undefined : overdue.at(-1);
    return restarted;
  }

  async #settle(overdue: readonly OverdueVerification[], instants: Instants): Promise<number> {
    const { pool, client, log } = this.#options;
    const open = await lookUpEach(
      overdue,
      async ({ id, generation }) => await isOpen(client, verifyWorkflowId(id, generation)),
    );
    const lost = overdue.filter((_, index) => open[index] === false);
    const ids = lost.length === 0 ? [] : await restartVerifications(pool, lost, instants);
    if (ids.length > 0) {
      log.error(
        { endpoint_ids: ids, count: ids.length },
        "workflows of verifications are gone; the next ones begin",
      );
    }
    return ids.length;
  }
}
