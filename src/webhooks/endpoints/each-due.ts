/** Rounds over endpoints whose secrets need a change. */
import type { Pool, PoolClient } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import type { Logger } from "#observability/logger.ts";
import type { DuePage } from "#database/repositories/endpoints/endpoint-secrets.ts";
import type { Clock } from "#domain/clock.ts";
import type { EndpointKey } from "./endpoint-secrets.ts";

const PAGE = 100;
/** Limits a round, because its caller has other work. */
const STEPS_MAX = 100;

export interface RoundOptions {
  readonly clock: Clock;
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly log: Logger;
}

/**
 * Runs a step for each due endpoint in a separate transaction. So a failure, for instance a new hold, does not affect
 * others. Failed endpoints stay due and are skipped.
 *
 * @param round.step returns false if there was nothing to do
 * @param round.failure log message for a failed step
 * @returns number of steps that changed something
 */
export async function eachDue(
  find: (db: Pool, page: DuePage) => Promise<readonly EndpointKey[]>,
  round: {
    readonly step: (db: PoolClient, place: EndpointKey) => Promise<boolean>;
    readonly failure: string;
  },
  { pool, clock, log }: RoundOptions,
): Promise<number> {
  const now = new Date(clock.now());
  let count = 0;
  let after = "";
  while (count < STEPS_MAX) {
    const due = await find(pool, { now, after, limit: PAGE });
    for (const place of due) {
      try {
        count += Number(await transaction(pool, async (db) => await round.step(db, place)));
      } catch (error) {
        log.warn({ err: error, tenant_id: place.tenantId, endpoint_id: place.id }, round.failure);
      }
    }
    const last = due.at(-1);
    if (due.length < PAGE || last === undefined) {
      break;
    }
    after = last.id;
  }
  return count;
}
