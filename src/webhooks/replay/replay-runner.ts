/** Runs replay jobs in the worker, page by page. Each page and its job's row share a transaction. */
import type { Logger } from "pino";
import type { EntryServices } from "#compliance/entry.ts";
import type { Actor } from "#compliance/entry-types.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import { makeMissingPage } from "#database/repositories/webhooks/missing-deliveries.ts";
import {
  replayPageOfDeliveries,
  type ReplayedPage,
  type ReplayResult,
} from "#database/repositories/webhooks/replay-items.ts";
import { type Listing, listItems } from "#database/repositories/webhooks/replay-listing.ts";
import {
  advanceReplayJob,
  changeReplayJob,
  growReplayJob,
  lockReplayJob,
  type ReplayJob,
  touchReplayJob,
} from "#database/repositories/webhooks/replay-jobs.ts";
import { transaction } from "#database/transaction.ts";
import type { Releaser } from "../engine/release.ts";
import { logJobEnd } from "./job-entries.ts";

export interface ReplayRunnerOptions extends EntryServices {
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly releaser: Releaser;
  readonly log: Logger;
  /** Wakes the dispatcher after deliveries were queued. */
  readonly onQueued: () => void;
}

/** A job as its workflow sees it. */
export interface SeenJob extends Pick<
  ReplayJob,
  "state" | "total" | "done" | "failed" | "skipped" | "position"
> {
  readonly held: boolean;
  /** Whether items are still being listed, so that `total` grows. */
  readonly listing: boolean;
}

const BY_MAX = 128;
const SYSTEM: Actor = "system:replay";
/** A job that was removed with its tenant, or has expired. */
const GONE: SeenJob = {
  state: "CANCELLED",
  total: 0,
  done: 0,
  failed: 0,
  skipped: 0,
  position: 0,
  held: false,
  listing: false,
};

/** Deliveries that a page compares with the filter of its job, about half a second. */
const LISTED_AT_ONCE = 5_000;
const NOTHING: ReplayedPage = { results: [], moved: [], due: [] };

function seenOf(job: ReplayJob & { readonly held: boolean }): SeenJob {
  return { ...job, listing: job.listing !== null };
}

const DONE: ReadonlySet<ReplayResult> = new Set(["replayed", "attempted"]);
const SKIPPED: ReadonlySet<ReplayResult> = new Set([
  "not_in_queue",
  "state_changed",
  "content_erased",
  "delivery_exists",
]);

/** Returns what is left to list as it was before it was stored as JSON. */
function withInstants({ filter, ...rest }: Listing): Listing {
  const { from, to } = filter;
  return {
    ...rest,
    filter: {
      ...filter,
      ...(from === undefined ? {} : { from: new Date(from) }),
      ...(to === undefined ? {} : { to: new Date(to) }),
    },
  };
}

function countsOf(results: readonly ReplayResult[]): Record<"done" | "failed" | "skipped", number> {
  const done = results.filter((result) => DONE.has(result)).length;
  const skipped = results.filter((result) => SKIPPED.has(result)).length;
  return { done, skipped, failed: results.length - done - skipped };
}

/** Lists the next items of a job, in a transaction of its own. */
async function listMore({ pool, clock }: ReplayRunnerOptions, jobId: string): Promise<SeenJob> {
  return await transaction(pool, async (db) => {
    const job = await lockReplayJob(db, jobId);
    if (job === undefined) {
      return GONE;
    }
    if (job.listing === null || job.state !== "RUNNING" || job.held) {
      return seenOf(job);
    }
    const now = new Date(clock.now());
    const { tenant_id: tenantId, total, created_at: createdAt } = job;
    const step = { jobId, tenantId, position: total, until: createdAt, now, size: LISTED_AT_ONCE };
    const { listed, left } = await listItems(db, withInstants(job.listing), step);
    const grown = await growReplayJob(db, { id: jobId, listed, left, now });
    return seenOf({ ...grown, held: false });
  });
}

async function carryOut(
  options: ReplayRunnerOptions,
  db: Queryable,
  job: ReplayJob,
  size: number,
): Promise<{ readonly job: ReplayJob; readonly page: ReplayedPage }> {
  const now = new Date(options.clock.now());
  const upTo = Math.min(job.total, job.position + size);
  const place = { jobId: job.id, tenantId: job.tenant_id, after: job.position, upTo, now };
  const page =
    upTo === job.position
      ? NOTHING
      : job.kind === "missing"
        ? await makeMissingPage(db, { ...place, endpointId: job.endpoint_id ?? "" }, options.randomBytes)
        : await replayPageOfDeliveries(db, {
            ...place,
            deadLetters: job.states === null || job.states.includes("DEAD_LETTERED"),
          });
  const advanced = await advanceReplayJob(db, {
    id: job.id,
    position: upTo,
    now,
    ...countsOf(page.results),
  });
  if (advanced.finished_at !== null) {
    await logJobEnd(db, advanced, { actor: SYSTEM }, options);
  }
  return { job: advanced, page };
}

/**
 * Replays the next items of a running job, and lists further ones if any are left. Repeating a page has no effect.
 *
 * @param page `after`: last position that the caller knows of; `size`: maximum number of items
 */
export async function replayPage(
  options: ReplayRunnerOptions,
  { jobId, after, size }: { readonly jobId: string; readonly after: number; readonly size: number },
): Promise<SeenJob> {
  const { pool, clock } = options;
  const { seen, page } = await transaction(pool, async (db) => {
    // A custom plan for the first pages would depend on their size and scan whole partitions.
    await db.query("SET LOCAL plan_cache_mode = force_generic_plan");
    const job = await lockReplayJob(db, jobId);
    if (job === undefined) {
      return { seen: GONE };
    }
    if (job.state !== "RUNNING" || job.held || job.position > after) {
      await touchReplayJob(db, jobId, new Date(clock.now()));
      return { seen: seenOf(job) };
    }
    const carried = await carryOut(options, db, job, size);
    return { seen: seenOf({ ...carried.job, held: false }), page: carried.page };
  });
  if (page?.results.some((result) => DONE.has(result)) === true) {
    options.releaser.release(page.moved);
    options.releaser.attemptAllNow(page.due);
    options.onQueued();
  }
  return seen.listing ? await listMore(options, jobId) : seen;
}

/** Pauses, resumes or cancels an open job for an operator's signal. */
export async function changeJob(
  options: ReplayRunnerOptions,
  {
    jobId,
    to,
    by,
  }: {
    readonly jobId: string;
    readonly to: "RUNNING" | "PAUSED" | "CANCELLED";
    readonly by?: string | undefined;
  },
): Promise<SeenJob> {
  const { pool, clock, log } = options;
  const { isChanged, job } = await transaction(pool, async (db) => {
    const changed = await changeReplayJob(db, { id: jobId, to, now: new Date(clock.now()) });
    const locked = await lockReplayJob(db, jobId);
    if (changed !== undefined && changed.finished_at !== null) {
      await logJobEnd(db, changed, { actor: SYSTEM }, options);
    }
    return { isChanged: changed !== undefined, job: locked };
  });
  if (isChanged) {
    log.info({ job: jobId, to, by: by?.slice(0, BY_MAX) }, "replay job changed by signal");
  }
  return job === undefined ? GONE : seenOf(job);
}
