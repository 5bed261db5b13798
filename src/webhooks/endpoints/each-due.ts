/** Rounds over endpoints whose secrets are due for something. */
import type { Pool, PoolClient } from "../../database/pool.ts";
import { transaction } from "../../database/transaction.ts";
import type { Logger } from "../../observability/logger.ts";
import type { DuePage } from "../../database/repositories/endpoints/endpoint-secrets.ts";
import type { Clock } from "../../domain/clock.ts";
import type { EndpointPlace } from "./endpoint-secrets.ts";

const PAGE = 100;
/** Steps of one round: its caller has other work as well. */
const STEPS_MAX = 100;

export interface RoundOptions {
  readonly clock: Clock;
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly log: Logger;
}

/**
 * Takes a step for each endpoint that is due, in a transaction of its own: one endpoint's trouble, for instance a hold that
 * came just now, is not the others'. Those that fail stay due, and are passed by.
 *
 * @param round.step false when nothing was to be done
 * @param round.failure what is logged where it fails
 * @returns how many steps did something
 */
export async function eachDue(
  find: (db: Pool, page: DuePage) => Promise<readonly EndpointPlace[]>,
  round: {
    readonly step: (db: PoolClient, place: EndpointPlace) => Promise<boolean>;
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
