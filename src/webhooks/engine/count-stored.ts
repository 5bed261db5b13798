/** Counts what was stored before its upgrade, hour by hour, beside the work of a worker (decision 36). */
import { isContention } from "#database/errors.ts";
import type { Pool } from "#database/pool.ts";
import {
  completeUncounted,
  countHour,
  countRetries,
  takeUncounted,
} from "#database/repositories/webhooks/uncounted-hours.ts";
import { transaction } from "#database/transaction.ts";

/**
 * Counts the newest hour that is not counted (role signet_worker). Returns the number of counted hours: 0 or 1. Also 0 if
 * another worker was faster.
 */
export async function countStored(pool: Pool, now: Date): Promise<number> {
  try {
    return await transaction(pool, async (db) => {
      await db.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
      const next = await takeUncounted(db, now);
      if (next === undefined) {
        return 0;
      }
      await (next === "retries" ? countRetries(db) : countHour(db, next));
      await completeUncounted(db, next);
      return 1;
    });
  } catch (error) {
    if (isContention(error)) {
      return 0;
    }
    throw error;
  }
}

/**
 * Counts hours until a time has passed or there are none. Returns 0 if there were none.
 *
 * @param ms the time, in milliseconds
 */
export async function countStoredFor(
  ms: number,
  pool: Pool,
  now: Date,
  monotonic: () => number,
): Promise<number> {
  const until = monotonic() + ms;
  let counted = 0;
  while ((await countStored(pool, now)) > 0) {
    counted += 1;
    if (monotonic() >= until) {
      break;
    }
  }
  return counted;
}
