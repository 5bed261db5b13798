/** Grades of receivers: requests and results. */
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";
import {
  type EndpointTarget,
  TARGET_COLUMNS,
  TARGET_FROM,
  type TargetColumns,
  withSecrets,
} from "../stored-secrets.ts";

/** Channel that is notified when a grade waits for a worker. */
export const GRADES_CHANNEL = "signet_grades";

export type GradeState = "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED";
export type GradeFailure = "endpoint_not_active" | "interrupted";

export interface Grade {
  readonly id: string;
  readonly endpointId: string;
  readonly state: GradeState;
  readonly failure: GradeFailure | null;
  /** Number of checks made so far, until there is a report. */
  readonly checksMade: number;
  /** JSON text. */
  readonly report: string | null;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
}

interface GradeRow {
  id: string;
  endpoint_id: string;
  state: GradeState;
  failure: GradeFailure | null;
  checks_made: number;
  report: string | null;
  created_at: Date;
  finished_at: Date | null;
}

const COLUMNS = raw("id, endpoint_id, state, failure, checks_made, report, created_at, finished_at");

function toGrade(row: GradeRow): Grade {
  return {
    id: row.id,
    endpointId: row.endpoint_id,
    state: row.state,
    failure: row.failure,
    checksMade: row.checks_made,
    report: row.report,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
  };
}

export interface NewGrade {
  readonly id: string;
  readonly tenantId: string;
  readonly endpointId: string;
  readonly now: Date;
}

/** Returns undefined if the endpoint already has an open grade. */
export async function insertGrade(
  db: Queryable,
  { id, tenantId, endpointId, now }: NewGrade,
): Promise<Grade | undefined> {
  const { rows } = await db.query<GradeRow>({
    name: "insert-grade",
    ...sql`WITH made AS (
        INSERT INTO endpoint_grades (id, tenant_id, endpoint_id, state, created_at)
        VALUES (${id}, ${tenantId}, ${endpointId}, 'QUEUED', ${now})
        ON CONFLICT (endpoint_id) WHERE state IN ('QUEUED', 'RUNNING') DO NOTHING RETURNING ${COLUMNS}
      ) SELECT ${COLUMNS}, pg_notify(${GRADES_CHANNEL}, '') FROM made`,
  });
  return rows[0] === undefined ? undefined : toGrade(rows[0]);
}

/** Returns the creation times of an endpoint's grades since an instant, oldest first. */
export async function gradesSince(
  db: Queryable,
  { tenantId, endpointId }: { readonly tenantId: string; readonly endpointId: string },
  since: Date,
): Promise<Date[]> {
  const { rows } = await db.query<{ created_at: Date }>({
    name: "grades-since",
    ...sql`SELECT created_at FROM endpoint_grades
      WHERE endpoint_id = ${endpointId} AND tenant_id = ${tenantId} AND created_at > ${since} ORDER BY id`,
  });
  return rows.map((row) => row.created_at);
}

/** Removes all but the newest `keep` grades of an endpoint. */
export async function trimGrades(
  db: Queryable,
  { tenantId, endpointId }: { readonly tenantId: string; readonly endpointId: string },
  keep: number,
): Promise<void> {
  await db.query({
    name: "trim-grades",
    ...sql`DELETE FROM endpoint_grades WHERE endpoint_id = ${endpointId} AND tenant_id = ${tenantId} AND state IN ('COMPLETED', 'FAILED')
      AND id NOT IN (SELECT id FROM endpoint_grades WHERE endpoint_id = ${endpointId} AND tenant_id = ${tenantId} ORDER BY id DESC LIMIT ${keep})`,
  });
}

export async function findGrade(
  db: Queryable,
  {
    id,
    tenantId,
    endpointId,
  }: { readonly id: string; readonly tenantId: string; readonly endpointId: string },
): Promise<Grade | undefined> {
  const { rows } = await db.query<GradeRow>({
    name: "find-grade",
    ...sql`SELECT ${COLUMNS} FROM endpoint_grades WHERE id = ${id} AND tenant_id = ${tenantId} AND endpoint_id = ${endpointId}`,
  });
  return rows[0] === undefined ? undefined : toGrade(rows[0]);
}

/** A grade in a list, with only the report's score. */
export interface GradeSummary extends Omit<Grade, "report" | "checksMade"> {
  /** Null until there is a report. */
  readonly score: number | null;
}

/** Returns the grades of an endpoint, newest first. */
export async function listGrades(
  db: Queryable,
  { tenantId, endpointId }: { readonly tenantId: string; readonly endpointId: string },
  { before, limit }: { readonly before: string | null; readonly limit: number },
): Promise<GradeSummary[]> {
  const { rows } = await db.query<Omit<GradeRow, "report" | "checks_made"> & { score: number | null }>({
    name: "list-grades",
    ...sql`SELECT id, endpoint_id, state, failure, created_at, finished_at, (report::json ->> 'score')::int AS score
      FROM endpoint_grades WHERE endpoint_id = ${endpointId} AND tenant_id = ${tenantId} AND (${before}::text IS NULL OR id < ${before})
      ORDER BY id DESC LIMIT ${limit}`,
  });
  return rows.map(({ score, ...row }) => {
    const { report: _none, checksMade: _some, ...grade } = toGrade({ ...row, report: null, checks_made: 0 });
    return { ...grade, score };
  });
}

export interface TakenGrade {
  readonly id: string;
  readonly endpointId: string;
  /** Number of this run, which {@link finishGrade} uses as a fence. */
  readonly run: number;
}

/** Takes the oldest grade that waits or whose worker was lost (role signet_worker). */
export async function takeGrade(
  db: Queryable,
  { now, leaseUntil, runsMax }: { readonly now: Date; readonly leaseUntil: Date; readonly runsMax: number },
): Promise<TakenGrade | undefined> {
  const { rows } = await db.query<{ id: string; endpoint_id: string; runs: number }>({
    name: "take-grade",
    ...sql`UPDATE endpoint_grades SET state = 'RUNNING', runs = runs + 1, lease_until = ${leaseUntil}, checks_made = 0
      WHERE id = (
        SELECT id FROM endpoint_grades
        WHERE state IN ('QUEUED', 'RUNNING') AND (lease_until IS NULL OR lease_until < ${now}) AND runs < ${runsMax}
        ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED
      ) RETURNING id, endpoint_id, runs`,
  });
  const row = rows[0];
  return row === undefined ? undefined : { id: row.id, endpointId: row.endpoint_id, run: row.runs };
}

/** Fails grades whose last permitted run was lost. */
export async function failLostGrades(
  db: Queryable,
  { now, runsMax }: { readonly now: Date; readonly runsMax: number },
): Promise<void> {
  await db.query({
    name: "fail-lost-grades",
    ...sql`UPDATE endpoint_grades SET state = 'FAILED', failure = 'interrupted', finished_at = ${now}, lease_until = NULL
      WHERE state = 'RUNNING' AND lease_until < ${now} AND runs >= ${runsMax}`,
  });
}

/** Returns a grade to the queue when this worker cannot finish it. The run does not count. */
export async function requeueGrade(db: Queryable, { id, run }: TakenGrade): Promise<void> {
  await db.query({
    name: "requeue-grade",
    ...sql`UPDATE endpoint_grades SET state = 'QUEUED', runs = runs - 1, lease_until = NULL, checks_made = 0
      WHERE id = ${id} AND state = 'RUNNING' AND runs = ${run} RETURNING pg_notify(${GRADES_CHANNEL}, '')`,
  });
}

/** Stores the result of a run, unless another worker has taken the grade meanwhile. */
export async function finishGrade(
  db: Queryable,
  { id, run }: TakenGrade,
  end: { readonly report: string | null; readonly failure: GradeFailure | null; readonly now: Date },
): Promise<void> {
  await db.query({
    name: "finish-grade",
    ...sql`UPDATE endpoint_grades SET state = CASE WHEN ${end.failure}::text IS NULL THEN 'COMPLETED' ELSE 'FAILED' END,
        report = ${end.report}, failure = ${end.failure}, finished_at = ${end.now}, lease_until = NULL
      WHERE id = ${id} AND state = 'RUNNING' AND runs = ${run}`,
  });
}

const GRADABLE = raw("e.state = 'ACTIVE' AND t.state = 'ACTIVE' AND t.held_at IS NULL");

/** Returns the current endpoint; undefined if it receives no deliveries. */
export async function loadForGrade(db: Queryable, id: string): Promise<EndpointTarget | undefined> {
  const { rows } = await db.query<TargetColumns>({
    name: "load-for-grade",
    ...sql`SELECT ${raw(TARGET_COLUMNS)} FROM ${raw(TARGET_FROM)} WHERE e.id = ${id} AND ${GRADABLE}`,
  });
  return rows[0] === undefined ? undefined : withSecrets(rows[0]);
}

/**
 * Stores the progress of a run.
 *
 * @returns whether it may continue: the run is current, and the endpoint still has the URL that was to be graded
 */
export async function continueGrade(
  db: Queryable,
  { id, endpointId, run }: TakenGrade,
  { url, made }: { readonly url: string; readonly made: number },
): Promise<boolean> {
  const { rowCount } = await db.query({
    name: "continue-grade",
    ...sql`UPDATE endpoint_grades g SET checks_made = ${made} FROM endpoints e JOIN tenants t ON t.id = e.tenant_id
      WHERE g.id = ${id} AND g.state = 'RUNNING' AND g.runs = ${run} AND e.id = ${endpointId} AND e.url = ${url} AND ${GRADABLE}`,
  });
  return rowCount === 1;
}
