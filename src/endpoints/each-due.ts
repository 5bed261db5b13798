/** Rounds over endpoints whose secrets are due for something. */
import type { Pool, PoolClient } from "../database/pool.ts";
import { transaction } from "../database/transaction.ts";
import type { Logger } from "../observability/logger.ts";
import type { EndpointPlace } from "./endpoint-secrets.ts";

export interface RoundOptions {
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly log: Logger;
}

/**
 * Takes a step for each endpoint, in a transaction of its own: one endpoint's trouble, for instance a hold that came
 * just now, is not the others'.
 *
 * @param round.step false when nothing was to be done
 * @param round.failure what is logged where it fails
 * @returns how many steps did something
 */
export async function eachDue(
  due: readonly EndpointPlace[],
  round: {
    readonly step: (db: PoolClient, place: EndpointPlace) => Promise<boolean>;
    readonly failure: string;
  },
  { pool, log }: RoundOptions,
): Promise<number> {
  let count = 0;
  for (const place of due) {
    try {
      count += Number(await transaction(pool, async (db) => await round.step(db, place)));
    } catch (error) {
      log.warn({ err: error, tenant_id: place.tenantId, endpoint_id: place.id }, round.failure);
    }
  }
  return count;
}
