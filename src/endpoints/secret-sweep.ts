/** Erases secrets that are over and writes down what their times have made of the others; nothing waits for it. */
import type { Logger } from "pino";
import type { Pool } from "../database/pool.ts";
import { findDueMoves } from "../database/repositories/endpoint-secrets.ts";
import { transaction } from "../database/transaction.ts";
import { type EndpointSecretServices, settleSecrets } from "./endpoint-secrets.ts";

/** Endpoints of one round. */
const ENDPOINTS_MAX = 100;

export interface SecretSweepOptions extends EndpointSecretServices {
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly log: Logger;
}

/** One round; may run beside itself. Resolves with the number of endpoints whose secrets have moved on. */
export async function sweepSecrets(options: SecretSweepOptions): Promise<number> {
  const { pool, clock, log } = options;
  const due = await findDueMoves(pool, { now: new Date(clock.now()), limit: ENDPOINTS_MAX });
  let moved = 0;
  for (const place of due) {
    try {
      moved += Number(await transaction(pool, async (db) => await settleSecrets(db, place, options)));
    } catch (error) {
      // One endpoint's trouble, for instance a hold that came just now, is not the others'.
      log.warn(
        { err: error, tenant_id: place.tenantId, endpoint_id: place.id },
        "an endpoint's secrets could not be moved on",
      );
    }
  }
  return moved;
}
