/**
 * Removes old data (architecture 4). Whole days are dropped after their open rows have moved to the default
 * partitions, so no long DELETE ever runs.
 */
import type { Logger } from "pino";
import type { Pool } from "../../database/pool.ts";
import {
  dropDay,
  forgetIdempotencyKeys,
  partitionDays,
  purgeDefaults,
} from "../../database/repositories/partitions.ts";
import { forgetPingedHosts } from "../../database/repositories/endpoints/endpoint-verifications.ts";
import { purgeTombstones } from "../../database/repositories/endpoints/endpoints.ts";
import { forgetAnswers } from "../../database/repositories/idempotent-answers.ts";
import { forgetCounts } from "../../database/repositories/webhooks/delivery-counts.ts";
import { forgetReplayItems, forgetReplayJobs } from "../../database/repositories/webhooks/replay-jobs.ts";
import { forgetPolledSets } from "../../database/repositories/webhooks/ssf-streams.ts";
import { forgetTokenRevocations } from "../../database/repositories/tokens/revocations.ts";
import type { Clock } from "../../domain/clock.ts";
import { DAY_MS, utcDay } from "../../domain/ids.ts";

/** Idempotency keys are valid for 24 hours (wire.md, Events). */
const KEYS_KEPT_MS = DAY_MS;
/** How long a deleted endpoint leaves a tombstone (security decisions H): longer than any delivery lives. */
const TOMBSTONES_KEPT_MS = 30 * DAY_MS;
const HOSTS_KEPT_MS = 3_600_000;
const DELETES_MAX = 5_000;
/** Bounded, so that each run ends. The next run continues. */
const ROUNDS_MAX = 200;

export interface Purged {
  readonly days: number;
  readonly keys: number;
  readonly rows: number;
  /** Expired revocations of single tokens. */
  readonly revocations: number;
  /** Tombstones of endpoints. */
  readonly endpoints: number;
}

export interface RetentionOptions {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly log: Logger;
  /** Number of whole days for which finished deliveries are kept. */
  readonly retentionDays: number;
}

/** Removes expired data. May be interrupted at any point and repeated. */
export async function purgeExpired({ pool, clock, log, retentionDays }: RetentionOptions): Promise<Purged> {
  const now = clock.now();
  const before = utcDay(now - retentionDays * DAY_MS);
  let days = 0;
  for (const day of await partitionDays(pool)) {
    if (day < before && (await dropDay(pool, day, new Date(now)))) {
      log.info({ day }, "partitions dropped");
      days += 1;
    }
  }
  const keysBefore = new Date(now - KEYS_KEPT_MS);
  const keys =
    (await inRounds(async () => await forgetIdempotencyKeys(pool, keysBefore, DELETES_MAX))) +
    (await inRounds(async () => await forgetAnswers(pool, keysBefore, DELETES_MAX)));
  // Jobs are kept as long as what they replayed. One may have millions of items.
  const retainedSince = new Date(now - retentionDays * DAY_MS);
  await inRounds(async () => await forgetReplayItems(pool, retainedSince, DELETES_MAX));
  await inRounds(async () => await forgetReplayJobs(pool, retainedSince, DELETES_MAX));
  await inRounds(async () => await forgetCounts(pool, retainedSince, DELETES_MAX));
  const rows = await inRounds(async () => await purgeDefaults(pool, before, DELETES_MAX));
  const revocations = await inRounds(async () => await forgetTokenRevocations(pool, DELETES_MAX));
  const tombstonesBefore = new Date(now - TOMBSTONES_KEPT_MS);
  const endpoints = await inRounds(async () => await purgeTombstones(pool, tombstonesBefore, DELETES_MAX));
  await inRounds(async () => await forgetPolledSets(pool, retainedSince, DELETES_MAX));
  const hostsBefore = new Date(now - HOSTS_KEPT_MS);
  await inRounds(async () => await forgetPingedHosts(pool, hostsBefore, DELETES_MAX));
  return { days, keys, rows, revocations, endpoints };
}

/** Repeats small deletes until nothing is left. */
async function inRounds(remove: () => Promise<number>, most = DELETES_MAX): Promise<number> {
  let removed = 0;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const count = await remove();
    removed += count;
    if (count < most) {
      break;
    }
  }
  return removed;
}
