/** Replay jobs for tenants: create, read, pause, resume and cancel. */
import type { Logger } from "pino";
import type { By } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import {
  countOutcomes,
  type Counted,
  countSelected,
  type DeadLetterSelection,
  insertSelectedItems,
  ITEMS_READ_MAX,
  insertUnknownItems,
  listReplayItems,
  type ReplayItem,
  type ItemOutcomes,
  type ReplayOutcome,
  type SelectionAtOnce,
  type StatesSelection,
} from "#database/repositories/webhooks/replay-items.ts";
import {
  LISTED_BEFORE_ANSWER,
  type Listing,
  listItems,
} from "#database/repositories/webhooks/replay-listing.ts";
import {
  changeReplayJob,
  countOpenJobs,
  findReplayJob,
  insertReplayJob,
  listReplayJobs,
  type ReplayJob,
  settleNewJob,
} from "#database/repositories/webhooks/replay-jobs.ts";
import { insertMissingItems } from "#database/repositories/webhooks/missing-deliveries.ts";
import type { RowPage } from "#database/repositories/page.ts";
import { tenantHeld } from "#database/repositories/tenants.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { newId } from "#domain/ids.ts";
import { found, SignetError } from "#domain/errors.ts";
import { logJobEnd, logJobStart } from "./job-entries.ts";
import { findMissing, type MissingSelection } from "./missing.ts";

/** Maximum number of ids per request. */
export const REPLAY_IDS_MAX = 10_000;
/** Deliveries that are compared with a filter before the answer. The worker lists the others. */
const LISTED_AT_ONCE = 2_000;
/** Maximum number of items of a job that is listed before the answer. */
const REPLAY_ITEMS_MAX = 100_000;
/** Deliveries that a count compares at most, about a second. */
export const COMPARED_MAX = 500_000;
/** Items whose outcomes are counted at most, about a second: each is looked up by its key. */
export const OUTCOMES_MAX = 100_000;
/** Maximum number of unfinished jobs per tenant. */
const OPEN_JOBS_MAX = 10;
export const REPLAY_RATE = { default: 500, max: 5_000 } as const;

export interface ReplayServiceOptions extends EntryServices {
  /** Role signet_api. */
  readonly pool: Pool;
  readonly keyring: Pick<Keyring, "contentRoot">;
  /** Starts the workflow of a job: `kickReplay`. */
  readonly kick: (job: ReplayJob) => Promise<boolean>;
  readonly log: Logger;
}

/** The selection to replay, and its rate. */
export interface ReplayRequest {
  readonly selection: DeadLetterSelection | StatesSelection | MissingSelection;
  readonly ratePerSecond: number;
}

export interface ItemPage {
  readonly after: number;
  readonly limit: number;
  readonly outcomes: ItemOutcomes | undefined;
  readonly outcome?: ReplayOutcome | undefined;
}

export interface CountedOutcomes {
  readonly counts: Readonly<Record<ReplayOutcome, number>>;
  /** Number of the job's items that were looked at, and whether they are all. */
  readonly counted: number;
  readonly complete: boolean;
}

function tooMany(): SignetError {
  return new SignetError("LIMIT_EXCEEDED", {
    detail: `A replay can have at most ${REPLAY_ITEMS_MAX} items. Narrow it by endpoint or time.`,
  });
}

/** Whether all items of a job are listed before the answer. */
function isListedAtOnce(selection: DeadLetterSelection | StatesSelection): selection is SelectionAtOnce {
  return "states" in selection
    ? selection.states.some((state) => LISTED_BEFORE_ANSWER.includes(state))
    : "ids" in selection;
}

export class ReplayService {
  readonly #options: ReplayServiceOptions;
  readonly #kicks = new Set<Promise<unknown>>();

  constructor(options: ReplayServiceOptions) {
    this.#options = options;
  }

  /**
   * Returns the number of items that a job would have, among the oldest that could match.
   *
   * @throws SignetError as {@link create}
   */
  async count(db: Queryable, tenantId: string, { selection }: ReplayRequest): Promise<Counted> {
    const now = new Date(this.#options.clock.now());
    await this.#requireRunningTenant(db, tenantId);
    if ("endpointId" in selection) {
      let total = 0;
      for await (const ids of this.#missing(db, { tenantId, now }, selection)) {
        total += ids.length;
      }
      return { total, wouldFail: 0, complete: true };
    }
    const counted = await countSelected(db, { tenantId, selection, now }, COMPARED_MAX);
    if (isListedAtOnce(selection) && counted.total > REPLAY_ITEMS_MAX) {
      throw tooMany();
    }
    return counted;
  }

  /**
   * Creates a job in the caller's transaction, for the items that match now. The worker lists what is left of a filter.
   * Call {@link kick} after the commit.
   *
   * @throws SignetError INVALID_STATE while the tenant is held or if the endpoint is not ACTIVE, NOT_FOUND,
   * LIMIT_EXCEEDED
   */
  async create(
    db: Queryable,
    tenantId: string,
    { selection, ratePerSecond }: ReplayRequest,
    by: By,
  ): Promise<ReplayJob> {
    const { clock, randomBytes } = this.#options;
    const now = new Date(clock.now());
    await this.#requireRunningTenant(db, tenantId);
    if ((await countOpenJobs(db, tenantId)) >= OPEN_JOBS_MAX) {
      throw new SignetError("LIMIT_EXCEEDED", {
        detail: `This tenant already has ${OPEN_JOBS_MAX} unfinished replays.`,
      });
    }
    const id = newId("replay", clock.now(), randomBytes);
    const missing = "endpointId" in selection;
    const endpointId = missing
      ? selection.endpointId
      : "filter" in selection
        ? (selection.filter.endpointId ?? null)
        : null;
    await insertReplayJob(db, {
      id,
      tenant_id: tenantId,
      kind: missing ? "missing" : "states" in selection ? "deliveries" : "dead_letters",
      endpoint_id: endpointId,
      states: "states" in selection ? selection.states : null,
      rate_per_second: ratePerSecond,
      now,
    });
    const listing = missing
      ? await this.#listMissing(db, { tenantId, jobId: id, now }, selection)
      : await this.#listSelected(db, { tenantId, jobId: id, now }, selection);
    const job = await settleNewJob(db, { tenant_id: tenantId, id, now, listing });
    await logJobStart(db, job, by, this.#options);
    return job;
  }

  /** Starts the job's workflow in the background. */
  kick(job: ReplayJob): void {
    if (job.state === "COMPLETED") {
      return;
    }
    const kick = this.#options
      .kick(job)
      .catch((error: unknown) =>
        this.#options.log.debug({ err: error, job: job.id }, "replay not started yet"),
      )
      .finally(() => this.#kicks.delete(kick));
    this.#kicks.add(kick);
  }

  /** @throws SignetError NOT_FOUND */
  async find(tenantId: string, id: string): Promise<ReplayJob> {
    const job = await this.#read(tenantId, async (db) => await findReplayJob(db, tenantId, id));
    return found(job, "replay");
  }

  /** Lists jobs, newest first. */
  async list(tenantId: string, page: RowPage): Promise<ReplayJob[]> {
    return await this.#read(tenantId, async (db) => await listReplayJobs(db, tenantId, page));
  }

  /** Counts what the replays of a job's first items have come to since. @throws SignetError NOT_FOUND */
  async outcomes(tenantId: string, jobId: string): Promise<CountedOutcomes> {
    return await this.#read(tenantId, async (db) => {
      const { total } = found(await findReplayJob(db, tenantId, jobId), "replay");
      const counts = await countOutcomes(db, { tenantId, jobId, limit: OUTCOMES_MAX });
      return { counts, counted: Math.min(total, OUTCOMES_MAX), complete: total <= OUTCOMES_MAX };
    });
  }

  /**
   * Returns the results of the items, by position, and the position after which the next page begins; null after the
   * last one. A page that has filters may be empty and yet have a successor.
   *
   * @throws SignetError NOT_FOUND
   */
  async items(
    tenantId: string,
    jobId: string,
    page: ItemPage,
  ): Promise<{ readonly rows: readonly ReplayItem[]; readonly next: number | null }> {
    return await this.#read(tenantId, async (db) => {
      const job = found(await findReplayJob(db, tenantId, jobId), "replay");
      const rows = await listReplayItems(db, { tenantId, jobId, ...page, limit: page.limit + 1 });
      const last = rows[page.limit - 1];
      if (rows.length > page.limit && last !== undefined) {
        return { rows: rows.slice(0, page.limit), next: last.position };
      }
      const readTo = page.after + ITEMS_READ_MAX;
      return { rows, next: readTo < job.total ? readTo : null };
    });
  }

  /**
   * Pauses, resumes or cancels a job. Repeating a change has no effect.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE if the job is finished or, to resume, the tenant is held
   */
  async change(
    tenantId: string,
    id: string,
    to: "RUNNING" | "PAUSED" | "CANCELLED",
    by: By,
  ): Promise<ReplayJob> {
    const { clock } = this.#options;
    const changed = await this.#read(tenantId, async (db) => {
      if (to === "RUNNING") {
        await this.#requireRunningTenant(db, tenantId);
      }
      const job = await changeReplayJob(db, { id, tenantId, to, now: new Date(clock.now()) });
      if (job !== undefined && job.finished_at !== null) {
        await logJobEnd(db, job, by, this.#options);
      }
      return job;
    });
    if (changed !== undefined) {
      this.kick(changed);
      return changed;
    }
    const job = await this.find(tenantId, id);
    if (job.state !== to) {
      throw new SignetError("INVALID_STATE", { detail: `The replay is ${job.state}.` });
    }
    return job;
  }

  /** Resolves when no start or signal is in progress. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#kicks);
  }

  async #listSelected(
    db: Queryable,
    { tenantId, jobId, now }: { readonly tenantId: string; readonly jobId: string; readonly now: Date },
    selection: DeadLetterSelection | StatesSelection,
  ): Promise<Listing | null> {
    if (!isListedAtOnce(selection)) {
      const all = { ...selection, after: null };
      return (await listItems(db, all, { jobId, tenantId, position: 0, now, size: LISTED_AT_ONCE })).left;
    }
    const of = { tenantId, selection, now };
    const listed = await insertSelectedItems(db, jobId, of, REPLAY_ITEMS_MAX + 1);
    if (listed > REPLAY_ITEMS_MAX) {
      throw tooMany();
    }
    if ("ids" in selection && listed < selection.ids.length) {
      await insertUnknownItems(db, { jobId, tenantId, ids: selection.ids });
    }
    return null;
  }

  async #listMissing(
    db: Queryable,
    { tenantId, jobId, now }: { readonly tenantId: string; readonly jobId: string; readonly now: Date },
    selection: MissingSelection,
  ): Promise<null> {
    let listed = 0;
    for await (const eventIds of this.#missing(db, { tenantId, now }, selection)) {
      await insertMissingItems(db, { jobId, tenantId, after: listed, eventIds });
      listed += eventIds.length;
    }
    return null;
  }

  /**
   * Yields items in chunks up to the limit of a job. Without the limit, counting could hold a connection for hours.
   */
  async *#missing(
    db: Queryable,
    { tenantId, now }: { readonly tenantId: string; readonly now: Date },
    selection: MissingSelection,
  ): AsyncGenerator<string[]> {
    const { keyring } = this.#options;
    let found = 0;
    for await (const ids of findMissing(db, { tenantId, selection, keyring, now })) {
      found += ids.length;
      if (found > REPLAY_ITEMS_MAX) {
        throw tooMany();
      }
      yield ids;
    }
  }

  async #requireRunningTenant(db: Queryable, tenantId: string): Promise<void> {
    if (await tenantHeld(db, tenantId)) {
      throw new SignetError("INVALID_STATE", {
        detail: "The deliveries of this tenant are held. Nothing is replayed until they are released.",
      });
    }
  }

  async #read<T>(tenantId: string, work: (db: Queryable) => Promise<T>): Promise<T> {
    return await tenantTransaction(this.#options.pool, tenantId, work);
  }
}
