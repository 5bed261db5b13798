/** Removes old data, in steps that do not depend on each other. Whole days are dropped (decision 41). */
import type { Logger } from "pino";
import type { Patience } from "#database/errors.ts";
import type { Pool } from "#database/pool.ts";
import {
  dropClosedTables,
  dropCounts,
  partitionDays,
  purgeDefaults,
} from "#database/repositories/partitions.ts";
import { forgetPingedHosts } from "#database/repositories/endpoints/endpoint-verifications.ts";
import { purgeTombstones } from "#database/repositories/endpoints/endpoints.ts";
import { forgetReplayItems, forgetReplayJobs } from "#database/repositories/webhooks/replay-jobs.ts";
import { forgetPolledSets } from "#database/repositories/webhooks/ssf-streams.ts";
import { forgetTokenRevocations } from "#database/repositories/tokens/revocations.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import { DAY_MS, utcDay } from "#domain/ids.ts";
import { metrics } from "#observability/metrics.ts";
import { messageOf } from "#runtime/thrown.ts";
import { dropDay, dropDetached } from "./drop-day.ts";

/** How long a deleted endpoint leaves a tombstone (security decisions H): longer than any delivery lives. */
const TOMBSTONES_KEPT_MS = 30 * DAY_MS;
const HOSTS_KEPT_MS = 3_600_000;
const DELETES_MAX = 5_000;
/** Bounded, so that each step gets its turn. A step that reaches it goes on after the others. */
const ROUNDS_MAX = 200;

/** How long one call goes on, in milliseconds: less than its activity may take. */
const WORK_MS = 600_000;

export interface Purged {
  readonly days: number;
  /** Tables of keys, each as a whole. */
  readonly keys: number;
  readonly rows: number;
  /** Expired revocations of single tokens. */
  readonly revocations: number;
  /** Tombstones of endpoints. */
  readonly endpoints: number;
  /** Whether expired data is left: the call has taken as long as one may. */
  readonly more: boolean;
}

export interface RetentionOptions extends Patience {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly log: Logger;
  /** Number of whole days for which finished deliveries are kept. */
  readonly retentionDays: number;
  readonly timers: Timers;
}

/** What a step works with. */
export interface StepContext extends RetentionOptions {
  readonly now: number;
  /** Days before this one have ended, `YYYY-MM-DD`. */
  readonly before: string;
  /** The start of the retention. */
  readonly retainedSince: Date;
}

/** What one run of a step did. */
export interface StepResult {
  readonly removed: number;
  /** Whether the step reached its limit and must run again. */
  readonly more: boolean;
}

/** Removes one kind of expired data. A step depends on no other: one that fails does not keep the next from running. */
export interface RetentionStep {
  /** Label of its metrics. */
  readonly name: string;
  readonly run: (context: StepContext) => Promise<StepResult>;
}

/** Returns a step of small deletes, of at most `most` rows each. */
function deletes(
  name: string,
  remove: (context: StepContext, most: number) => Promise<number>,
  most = DELETES_MAX,
): RetentionStep {
  return { name, run: async (context) => await inRounds(async () => await remove(context, most), most) };
}

/** In this order. */
const STEPS: readonly RetentionStep[] = [
  { name: "detached", run: async ({ pool }) => ({ removed: await dropDetached(pool), more: false }) },
  { name: "days", run: dropDays },
  { name: "keys", run: dropKeys },
  // Jobs are kept as long as what they replayed. One may have millions of items.
  deletes(
    "replay_items",
    async ({ pool, retainedSince }, most) => await forgetReplayItems(pool, retainedSince, most),
  ),
  deletes(
    "replay_jobs",
    async ({ pool, retainedSince }, most) => await forgetReplayJobs(pool, retainedSince, most),
  ),
  { name: "counts", run: dropDaysOfCounts },
  deletes("rows", async ({ pool, before }, most) => await purgeDefaults(pool, before, most)),
  deletes("revocations", async ({ pool }, most) => await forgetTokenRevocations(pool, most)),
  deletes(
    "endpoints",
    async ({ pool, now }, most) => await purgeTombstones(pool, new Date(now - TOMBSTONES_KEPT_MS), most),
  ),
  deletes(
    "polled_sets",
    async ({ pool, retainedSince }, most) => await forgetPolledSets(pool, retainedSince, most),
  ),
  deletes(
    "pinged_hosts",
    async ({ pool, now }, most) => await forgetPingedHosts(pool, new Date(now - HOSTS_KEPT_MS), most),
  ),
];

/** Drops the tables whose keys have all ended. */
async function dropKeys({ pool, now, log, ...patience }: StepContext): Promise<StepResult> {
  const tables = await dropClosedTables(pool, now, patience);
  if (tables.length > 0) {
    log.info({ tables }, "tables of ended keys dropped");
  }
  return { removed: tables.length, more: false };
}

/** Drops the days of counts that have ended. */
async function dropDaysOfCounts({ pool, retainedSince, log, ...patience }: StepContext): Promise<StepResult> {
  const tables = await dropCounts(pool, retainedSince, patience);
  if (tables.length > 0) {
    log.info({ tables }, "days of counts dropped");
  }
  return { removed: tables.length, more: false };
}

/** Drops the days that have ended. A day that fails does not keep the next one. */
async function dropDays({ pool, now, before, log, timers, random }: StepContext): Promise<StepResult> {
  let removed = 0;
  const failures: unknown[] = [];
  for (const day of await partitionDays(pool)) {
    if (day >= before) {
      continue;
    }
    try {
      if (await dropDay({ pool, now: new Date(now), timers, random }, day)) {
        log.info({ day }, "partitions dropped");
        removed += 1;
      }
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) {
    throw new AggregateError(
      failures,
      `${failures.length} days could not be dropped: ${messageOf(failures[0])}`,
    );
  }
  return { removed, more: false };
}

/**
 * Removes expired data, step by step, until nothing is left or its time has passed. May be interrupted at any point and
 * repeated.
 *
 * @param steps only tests pass others
 * @throws AggregateError after all steps, if some failed
 */
export async function purgeExpired(options: RetentionOptions, steps = STEPS): Promise<Purged> {
  const { clock, log, retentionDays, timers } = options;
  const now = clock.now();
  const retainedSince = new Date(now - retentionDays * DAY_MS);
  const context: StepContext = { ...options, now, retainedSince, before: utcDay(retainedSince.getTime()) };
  const removed = new Map<string, number>();
  const failures: unknown[] = [];
  const end = timers.monotonic() + WORK_MS;
  let open = steps;
  for (let first = true; open.length > 0 && (first || timers.monotonic() < end); first = false) {
    const unfinished: RetentionStep[] = [];
    for (const step of open) {
      const { name } = step;
      try {
        const result = await step.run(context);
        removed.set(name, (removed.get(name) ?? 0) + result.removed);
        metrics.retentionBehind.set({ step: name }, result.more ? 1 : 0);
        if (result.more) {
          unfinished.push(step);
        }
      } catch (error) {
        log.error({ err: error, step: name }, "a step of retention failed; the others go on");
        metrics.retentionFailures.inc({ step: name });
        metrics.retentionBehind.set({ step: name }, 1);
        failures.push(error);
      }
    }
    open = unfinished;
  }
  if (failures.length > 0) {
    throw new AggregateError(failures, `steps of retention failed: ${failures.map(messageOf).join("; ")}`);
  }
  const count = (name: string): number => removed.get(name) ?? 0;
  return {
    days: count("days"),
    keys: count("keys"),
    rows: count("rows"),
    revocations: count("revocations"),
    endpoints: count("endpoints"),
    more: open.length > 0,
  };
}

/** Repeats small deletes until nothing is left or the limit is reached. */
async function inRounds(remove: () => Promise<number>, most: number): Promise<StepResult> {
  let removed = 0;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const count = await remove();
    removed += count;
    if (count < most) {
      return { removed, more: false };
    }
  }
  return { removed, more: true };
}
