/** How far a process's clock is from the database's: tokens, leases and schedules are made of both. */
import type { Queryable } from "../database/pool.ts";
import { databaseClockMs } from "../database/repositories/doctor.ts";
import type { Clock } from "../domain/clock.ts";
import type { UpkeepJob } from "../upkeep.ts";
import { metrics } from "./metrics.ts";

const EVERY_MS = 10_000;
/** A question that took longer says more about the way than about the clocks. */
const ROUND_TRIP_MAX_MS = 500;

/** Own time less the database's, milliseconds; undefined when the way there is too slow to tell. */
async function clockSkewMs(db: Queryable, clock: Clock): Promise<number | undefined> {
  const before = clock.now();
  const theirs = await databaseClockMs(db);
  const after = clock.now();
  return after - before > ROUND_TRIP_MAX_MS ? undefined : (before + after) / 2 - theirs;
}

/** Measures it now and then. */
export function clockSkewJob(db: Queryable, clock: Clock): UpkeepJob {
  return {
    name: "clock skew",
    everyMs: EVERY_MS,
    run: async () => {
      const skewMs = await clockSkewMs(db, clock);
      if (skewMs !== undefined) {
        metrics.clockSkew.set(skewMs / 1_000);
      }
    },
  };
}
