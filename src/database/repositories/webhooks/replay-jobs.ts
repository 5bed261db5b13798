/** Replay jobs and their progress. */
import { lockName } from "#database/lock-name.ts";
import type { Queryable } from "#database/pool.ts";
import type { RowPage } from "../page.ts";
import type { ReplayableState } from "./replay-items.ts";
import type { Listing } from "./replay-listing.ts";

export const REPLAY_KINDS = ["dead_letters", "deliveries", "missing"] as const;
export type ReplayKind = (typeof REPLAY_KINDS)[number];
export const REPLAY_STATES = ["RUNNING", "PAUSED", "COMPLETED", "CANCELLED"] as const;
export type ReplayState = (typeof REPLAY_STATES)[number];

/** Counts of a job. Items in none of the last three wait, or were left when the job was cancelled. */
export interface ReplayCounts {
  readonly total: number;
  /** Replayed items, and retries that were made due. */
  readonly done: number;
  /** Items that could not be replayed: expired or not found. */
  readonly failed: number;
  /** Items that need no replay: already replayed or changed otherwise, or without anything to send. */
  readonly skipped: number;
}

export interface ReplayJob extends ReplayCounts {
  readonly id: string;
  readonly tenant_id: string;
  readonly kind: ReplayKind;
  readonly endpoint_id: string | null;
  /** The selected states of a job over deliveries; otherwise null. */
  readonly states: readonly ReplayableState[] | null;
  readonly state: ReplayState;
  readonly rate_per_second: number;
  /** Position up to which all items have a result. */
  readonly position: number;
  /** What is still to be listed; null once `total` is final. */
  readonly listing: Listing | null;
  readonly created_at: Date;
  readonly finished_at: Date | null;
}

const COLUMNS = `j.id, j.tenant_id, j.kind, j.endpoint_id, j.states, j.state,
  j.rate_per_second, j.total, j.done, j.failed, j.skipped, j.position, j.listing, j.created_at,
  j.finished_at`;

export interface NewReplayJob extends Pick<
  ReplayJob,
  "id" | "tenant_id" | "kind" | "endpoint_id" | "states" | "rate_per_second"
> {
  readonly now: Date;
}

/** Returns how many jobs of the tenant are open. Prevents new ones until the transaction ends (role signet_api). */
export async function countOpenJobs(db: Queryable, tenantId: string): Promise<number> {
  await lockName(db, `replay_jobs/${tenantId}`);
  const { rows } = await db.query<{ n: number }>(
    "SELECT count(*) AS n FROM replay_jobs WHERE tenant_id = $1 AND finished_at IS NULL",
    [tenantId],
  );
  return rows[0]?.n ?? 0;
}

/** Adds a job without items (role signet_api). */
export async function insertReplayJob(db: Queryable, job: NewReplayJob): Promise<void> {
  await db.query(
    `INSERT INTO replay_jobs (id, tenant_id, kind, endpoint_id, state, rate_per_second, total, created_at, touched_at, states)
      VALUES ($1, $2, $3, $4, 'RUNNING', $5, 0, $6, $6, $7)`,
    [job.id, job.tenant_id, job.kind, job.endpoint_id, job.rate_per_second, job.now, job.states],
  );
}

/** Counts the items of a new job. Completes it if there is nothing to replay or to list (role signet_api). */
export async function settleNewJob(
  db: Queryable,
  {
    tenant_id: tenantId,
    id,
    now,
    listing,
  }: Pick<NewReplayJob, "tenant_id" | "id" | "now"> & Pick<ReplayJob, "listing">,
): Promise<ReplayJob> {
  const { rows } = await db.query<ReplayJob>(
    `WITH counted AS (
        SELECT count(*)::int AS total, count(*) FILTER (WHERE result IN ('not_found', 'expired'))::int AS failed,
          count(*) FILTER (WHERE result = 'not_in_queue')::int AS skipped
        FROM replay_items WHERE job_id = $1 AND tenant_id = $2
      ), judged AS (
        SELECT *, total = failed + skipped AND $4::jsonb IS NULL AS over FROM counted
      )
      UPDATE replay_jobs j SET total = c.total, failed = c.failed, skipped = c.skipped, listing = $4,
        state = CASE WHEN c.over THEN 'COMPLETED' ELSE 'RUNNING' END,
        position = CASE WHEN c.over THEN c.total ELSE 0 END,
        finished_at = CASE WHEN c.over THEN $3::timestamptz END
      FROM judged c WHERE j.id = $1 AND j.tenant_id = $2 RETURNING ${COLUMNS}`,
    [id, tenantId, now, listing === null ? null : JSON.stringify(listing)],
  );
  return rows[0] as ReplayJob;
}

/** Adds listed items to a job, and stores what is left to list (role signet_worker). */
export async function growReplayJob(
  db: Queryable,
  {
    id,
    listed,
    left,
    now,
  }: Pick<ReplayJob, "id"> & { readonly listed: number; readonly left: Listing | null; readonly now: Date },
): Promise<ReplayJob> {
  const { rows } = await db.query<ReplayJob>({
    name: "grow-replay-job",
    text: `UPDATE replay_jobs j SET total = j.total + $2, listing = $3, touched_at = $4 WHERE j.id = $1 RETURNING ${COLUMNS}`,
    values: [id, listed, left === null ? null : JSON.stringify(left), now],
  });
  return rows[0] as ReplayJob;
}

export async function findReplayJob(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<ReplayJob | undefined> {
  const { rows } = await db.query<ReplayJob>({
    name: "find-replay-job",
    text: `SELECT ${COLUMNS} FROM replay_jobs j WHERE j.id = $1 AND j.tenant_id = $2`,
    values: [id, tenantId],
  });
  return rows[0];
}

/** Returns jobs, newest first. */
export async function listReplayJobs(
  db: Queryable,
  tenantId: string,
  { before, limit }: RowPage,
): Promise<ReplayJob[]> {
  const { rows } = await db.query<ReplayJob>({
    name: "list-replay-jobs",
    text: `SELECT ${COLUMNS} FROM replay_jobs j
      WHERE j.tenant_id = $1 AND ($2::text IS NULL OR j.id < $2) ORDER BY j.id DESC LIMIT $3`,
    values: [tenantId, before, limit],
  });
  return rows;
}

export interface ReplayJobChange {
  readonly id: string;
  /** If undefined, the job may belong to any tenant (role signet_worker). */
  readonly tenantId?: string | undefined;
  readonly to: "RUNNING" | "PAUSED" | "CANCELLED";
  readonly now: Date;
}

/** Pauses, resumes or cancels an open job. Returns undefined if it is not open, or already in that state. */
export async function changeReplayJob(
  db: Queryable,
  change: ReplayJobChange,
): Promise<ReplayJob | undefined> {
  const { rows } = await db.query<ReplayJob>({
    name: "change-replay-job",
    text: `UPDATE replay_jobs j SET state = $3, touched_at = $4,
        finished_at = CASE WHEN $3 = 'CANCELLED' THEN $4::timestamptz END
      WHERE j.id = $1 AND ($2::text IS NULL OR j.tenant_id = $2) AND j.state IN ('RUNNING', 'PAUSED') AND j.state <> $3
      RETURNING ${COLUMNS}`,
    values: [change.id, change.tenantId ?? null, change.to, change.now],
  });
  return rows[0];
}

/** Returns a job, locked until the transaction ends, and whether its tenant is on hold (role signet_worker). */
export async function lockReplayJob(
  db: Queryable,
  id: string,
): Promise<(ReplayJob & { readonly held: boolean }) | undefined> {
  const { rows } = await db.query<ReplayJob & { held: boolean }>({
    name: "lock-replay-job",
    text: `SELECT ${COLUMNS}, t.held_at IS NOT NULL AS held FROM replay_jobs j JOIN tenants t ON t.id = j.tenant_id
      WHERE j.id = $1 FOR UPDATE OF j`,
    values: [id],
  });
  return rows[0];
}

export interface ReplayProgress extends Omit<ReplayCounts, "total"> {
  readonly id: string;
  readonly position: number;
  readonly now: Date;
}

/** Stores the progress of a job. Completes it at its last item, once all are listed (role signet_worker). */
export async function advanceReplayJob(db: Queryable, progress: ReplayProgress): Promise<ReplayJob> {
  const { rows } = await db.query<ReplayJob>({
    name: "advance-replay-job",
    text: `UPDATE replay_jobs j SET position = $2, done = j.done + $3, failed = j.failed + $4, skipped = j.skipped + $5,
        touched_at = $6, state = CASE WHEN $2 >= j.total AND j.listing IS NULL THEN 'COMPLETED' ELSE j.state END,
        finished_at = CASE WHEN $2 >= j.total AND j.listing IS NULL THEN $6::timestamptz END
      WHERE j.id = $1 RETURNING ${COLUMNS}`,
    values: [progress.id, progress.position, progress.done, progress.failed, progress.skipped, progress.now],
  });
  return rows[0] as ReplayJob;
}

/** Records a sign of life of a job's workflow (role signet_worker). */
export async function touchReplayJob(db: Queryable, id: string, now: Date): Promise<void> {
  await db.query({
    name: "touch-replay-job",
    text: "UPDATE replay_jobs SET touched_at = $2 WHERE id = $1",
    values: [id, now],
  });
}

/** Takes running jobs without a sign of life since `before`, and records one for them (role signet_worker). */
export async function takeSilentJobs(
  db: Queryable,
  { before, now, limit }: { readonly before: Date; readonly now: Date; readonly limit: number },
): Promise<ReplayJob[]> {
  const { rows } = await db.query<ReplayJob>({
    name: "take-silent-replay-jobs",
    text: `WITH silent AS (
        SELECT id FROM replay_jobs WHERE state = 'RUNNING' AND touched_at < $1
        ORDER BY touched_at LIMIT $3 FOR UPDATE SKIP LOCKED
      )
      UPDATE replay_jobs j SET touched_at = $2 FROM silent s WHERE j.id = s.id RETURNING ${COLUMNS}`,
    values: [before, now, limit],
  });
  return rows;
}

/** Removes items of finished jobs, at most `limit`. Returns their number (role signet_worker). */
export async function forgetReplayItems(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query({
    name: "forget-replay-items",
    text: `DELETE FROM replay_items WHERE (job_id, position) IN (
        SELECT i.job_id, i.position FROM replay_jobs j JOIN replay_items i ON i.job_id = j.id
        WHERE j.finished_at < $1 LIMIT $2)`,
    values: [before, limit],
  });
  return rowCount ?? 0;
}

/** Removes finished jobs without items, at most `limit`. Returns their number (role signet_worker). */
export async function forgetReplayJobs(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query({
    name: "forget-replay-jobs",
    text: `DELETE FROM replay_jobs WHERE id IN (
        SELECT j.id FROM replay_jobs j WHERE j.finished_at < $1
          AND NOT EXISTS (SELECT FROM replay_items i WHERE i.job_id = j.id) ORDER BY j.finished_at LIMIT $2)`,
    values: [before, limit],
  });
  return rowCount ?? 0;
}
