/**
 * Hands back the claims of workers that shut down or crash, so that other workers take the deliveries at once. Also
 * returns members that the workflow of their list does not know.
 */
import type { Logger } from "pino";
import type { Pool } from "#database/pool.ts";
import { type Claimed, handBackClaims } from "#database/repositories/webhooks/claims.ts";
import { takeFromCarrier } from "#database/repositories/webhooks/reconciliation.ts";
import { removeWorkers } from "#database/repositories/health.ts";
import type { CarrierStarter } from "./carrier-starter.ts";

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

/** Hands back every first attempt of workers that have ended or do not respond, and removes the workers. */
export async function handBackOfDead(
  { pool, log }: HandBackServices,
  workers: readonly string[],
): Promise<void> {
  if (workers.length > 0) {
    const deliveries = await handBack(pool, workers);
    await removeWorkers(pool, workers);
    log.warn({ workers, deliveries }, "claims of unresponsive workers were handed back");
  }
}

/**
 * Starts the workflow of a list of first attempts. If its id is taken, members that the workflow does not know wait for
 * another carrier. Either a process that stood still claimed them for a list that another one had started, or PostgreSQL
 * lost the claim that the workflow was started for.
 *
 * @param draw as in {@link CarrierStarter.startFirst}
 */
export async function startList(
  { pool, starter }: { readonly pool: Pool; readonly starter: CarrierStarter },
  carrier: string,
  members: readonly Claimed[],
  draw?: readonly number[],
): Promise<void> {
  if (!(await starter.startFirst(carrier, members, draw))) {
    const late = await starter.unknownTo(carrier, members);
    if (late.length > 0) {
      await takeFromCarrier(pool, late);
    }
  }
}

/**
 * Hands back the claims of this worker before it ends. If this fails, another worker does it once this one is
 * missing.
 *
 * @param underWay deliveries with a request in progress here; if absent, there are none, and the worker is removed
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
