/** Claims of workers that end, in order or not: the deliveries wait for another worker at once. */
import type { Logger } from "pino";
import type { Pool } from "../../database/pool.ts";
import { handBackClaims } from "../../database/repositories/webhooks/claims.ts";
import { removeWorkers } from "../../database/repositories/health.ts";

const HAND_BACK_MAX = 500;

export interface HandBackServices {
  readonly pool: Pool;
  readonly log: Logger;
}

async function handBack(
  pool: Pool,
  workers: readonly string[],
  except: readonly string[] = [],
): Promise<number> {
  let total = 0;
  for (;;) {
    const freed = await handBackClaims(pool, { workers, except, limit: HAND_BACK_MAX });
    total += freed;
    if (freed < HAND_BACK_MAX) {
      return total;
    }
  }
}

/** Hands back every first attempt that these workers held, and forgets them. They have ended, or do not answer. */
export async function handBackOfDead(
  { pool, log }: HandBackServices,
  workers: readonly string[],
): Promise<void> {
  if (workers.length > 0) {
    const deliveries = await handBack(pool, workers);
    await removeWorkers(pool, workers);
    log.warn({ workers, deliveries }, "claims of workers that do not answer any more were handed back");
  }
}

/**
 * Hands back what this worker holds, since it is about to end. What fails here waits for another worker to miss this one.
 *
 * @param underWay deliveries whose request is under way here; when absent, none is, and the worker is forgotten
 */
export async function handBackOwn(
  { pool, log }: HandBackServices,
  worker: string,
  underWay?: readonly string[],
): Promise<void> {
  try {
    const deliveries = await handBack(pool, [worker], underWay);
    log.debug({ deliveries }, "claims were handed back");
    if (underWay === undefined) {
      await removeWorkers(pool, [worker]);
    }
  } catch (error) {
    log.warn({ err: error }, "claims could not be handed back");
  }
}
