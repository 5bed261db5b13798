/** Counts what was stored before its upgrade, hour by hour, beside the work of a worker (decision 36). */
import { isContention } from "#database/errors.ts";
import type { Pool } from "#database/pool.ts";
import {
  completeUncounted,
  countHour,
  countRetries,
  countUncounted,
  takeUncounted,
} from "#database/repositories/webhooks/uncounted-hours.ts";
import { transaction } from "#database/transaction.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";

/** Counts for so long, then pauses. */
const WORK_MS = 500;
const EVERY_MS = 1_000;
const IDLE_MS = 60_000;

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

export interface StoredCountsOptions {
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly timers: Pick<Timers, "monotonic">;
}

/** Returns the job that counts hours until a time has passed or there are none. */
export function storedCountsJob({ pool, clock, timers }: StoredCountsOptions): UpkeepJob {
  return {
    name: "stored deliveries",
    everyMs: EVERY_MS,
    idleMs: IDLE_MS,
    run: async () => {
      const now = new Date(clock.now());
      const until = timers.monotonic() + WORK_MS;
      let counted = 0;
      while ((await countStored(pool, now)) > 0) {
        counted += 1;
        if (timers.monotonic() >= until) {
          break;
        }
      }
      metrics.uncountedHours.set(await countUncounted(pool, now));
      return counted;
    },
  };
}
