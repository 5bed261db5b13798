/** Drops a day beside traffic (decision 41). */
import { giveWay, type Patience } from "#database/errors.ts";
import type { Queryable } from "#database/pool.ts";
import {
  beginDayDrop,
  copyOpenRows,
  dropDetachedTable,
  excludeDroppedDay,
  listOpenRows,
  swapDay,
} from "#database/repositories/partitions.ts";
import { metrics } from "#observability/metrics.ts";
import { EXPIRED_AT_ONCE, expireOverdue } from "#database/repositories/webhooks/carriers.ts";

/** Rows of one transaction. */
const ROWS_MAX = 1_000;
export interface DropOptions extends Patience {
  readonly pool: Queryable;
  /** The current time. Dead letters that have expired by then are not kept. */
  readonly now: Date;
}

async function copyAll({ pool }: DropOptions, day: string): Promise<void> {
  let lines: number;
  do {
    lines = await copyOpenRows(pool, day, ROWS_MAX);
  } while (lines === ROWS_MAX);
}

/**
 * Drops the partitions of a day. What is still open stays where it is found: in partitions of the day that have nothing
 * else, or in the default partitions. May be interrupted at any point and repeated.
 *
 * @returns false if the day has no partitions, or only those of open rows
 * @throws DatabaseError if the locks could not be had within a minute of tries
 */
export async function dropDay(options: DropOptions, day: string): Promise<boolean> {
  const { pool, now } = options;
  while ((await expireOverdue(pool, now)) === EXPIRED_AT_ONCE) {
    // The next ones.
  }
  if (!(await giveWay(async () => await beginDayDrop(pool, day), options))) {
    return false;
  }
  await giveWay(async () => {
    await excludeDroppedDay(pool, day);
    return true;
  }, options);
  while (await listOpenRows(pool, day, ROWS_MAX)) {
    // The next ones.
  }
  const waitedMs = await giveWay(async () => {
    await copyAll(options, day);
    return await swapDay(pool, day);
  }, options);
  metrics.retentionLockWait.set(waitedMs / 1_000);
  await dropDetached(pool);
  return true;
}

/** Drops the tables of days that were swapped. Returns their number. */
export async function dropDetached(pool: Queryable): Promise<number> {
  let dropped = 0;
  while (await dropDetachedTable(pool)) {
    dropped += 1;
  }
  return dropped;
}
