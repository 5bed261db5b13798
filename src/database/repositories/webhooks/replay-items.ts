/** Items of replay jobs: each is a dead letter, or an event that an endpoint never received. */
import { idDay } from "../../../domain/ids.ts";
import type { Queryable } from "../../pool.ts";
import { raw, sql, type Statement } from "../../sql.ts";
import { type DeliveryFilter, selectDeliveries } from "./delivery-filter.ts";
import { HAS_ENDPOINT } from "../endpoints/endpoints.ts";
import { notifyOutbox } from "./events.ts";

/** Results of an item. */
export const REPLAY_RESULTS = [
  "replayed",
  "not_in_queue",
  "content_erased",
  "delivery_exists",
  "expired",
  "not_found",
  "endpoint_unavailable",
] as const;
export type ReplayResult = (typeof REPLAY_RESULTS)[number];

/** The dead letters of a job: a list of ids, or all that match a filter. */
export type DeadLetterSelection = { readonly ids: readonly string[] } | { readonly filter: DeliveryFilter };

export interface SelectionOf {
  readonly tenantId: string;
  readonly selection: DeadLetterSelection;
  readonly now: Date;
}

/** Joins named deliveries. LIMIT keeps the planner from scanning whole partitions for a long list of ids. */
function named(tenantId: string): Statement {
  return sql`JOIN LATERAL (
    SELECT day, id, event_id, cycle, state, expires_at FROM deliveries n
    WHERE n.day = w.day AND n.id = w.id AND n.tenant_id = ${tenantId} LIMIT 1
  ) d ON true`;
}

function selectedDead({ tenantId, selection, now }: SelectionOf): Statement {
  if ("filter" in selection) {
    const { state = "DEAD_LETTERED" } = selection.filter;
    const filter = { ...selection.filter, state: "DEAD_LETTERED" as const };
    // Only DEAD_LETTERED can match, as in the list of the queue.
    return sql`SELECT d.day, d.id, d.event_id, d.cycle FROM deliveries d
      WHERE ${selectDeliveries({ tenantId, filter, now })} AND ${state === "DEAD_LETTERED"}`;
  }
  return sql`SELECT d.day, d.id, d.event_id, d.cycle
    FROM unnest(${selection.ids.map(idDay)}::date[], ${selection.ids}::text[]) AS w(day, id) ${named(tenantId)}
    WHERE d.state = 'DEAD_LETTERED' AND d.expires_at > ${now}`;
}

/** Returns how many dead letters a selection currently contains. */
export async function countDeadLetters(db: Queryable, of: SelectionOf): Promise<number> {
  const { rows } = await db.query<{ n: number }>(sql`SELECT count(*) AS n FROM (${selectedDead(of)}) chosen`);
  return rows[0]?.n ?? 0;
}

/** Creates the items of a new job, oldest first, at most `limit`. Returns their number (role signet_api). */
export async function insertDeadLetterItems(
  db: Queryable,
  jobId: string,
  of: SelectionOf,
  limit: number,
): Promise<number> {
  const { rowCount } = await db.query(
    sql`INSERT INTO replay_items (job_id, position, tenant_id, day, delivery_id, event_id, cycle)
      SELECT ${jobId}, row_number() OVER (ORDER BY day, id), ${of.tenantId}, day, id, event_id, cycle
      FROM (${selectedDead(of)} ORDER BY d.day, d.id LIMIT ${limit}) chosen`,
  );
  return rowCount ?? 0;
}

/** Adds items, with their result, for ids that are not dead letters of the tenant (role signet_api). */
export async function insertUnknownItems(
  db: Queryable,
  {
    jobId,
    tenantId,
    ids,
  }: { readonly jobId: string; readonly tenantId: string; readonly ids: readonly string[] },
): Promise<number> {
  const { rowCount } = await db.query(
    sql`WITH known AS MATERIALIZED (SELECT delivery_id FROM replay_items WHERE job_id = ${jobId} AND tenant_id = ${tenantId})
      INSERT INTO replay_items (job_id, position, tenant_id, day, delivery_id, result)
      SELECT ${jobId}, (SELECT count(*) FROM known) + row_number() OVER (ORDER BY w.id), ${tenantId}, w.day, w.id,
        CASE WHEN d.id IS NULL THEN 'not_found' WHEN d.state IN ('EXPIRED', 'DEAD_LETTERED') THEN 'expired' ELSE 'not_in_queue' END
      FROM unnest(${ids.map(idDay)}::date[], ${ids}::text[]) AS w(day, id) LEFT ${named(tenantId)}
      WHERE w.id NOT IN (SELECT delivery_id FROM known)`,
  );
  return rowCount ?? 0;
}

export interface ReplayItem {
  readonly position: number;
  readonly deliveryId: string | null;
  readonly eventId: string | null;
  /** Null while the item waits, or if its job was cancelled first. */
  readonly result: ReplayResult | null;
  readonly cancelled: boolean;
}

/** Selects items by result, waiting items, or items left by a cancelled job. */
export type ItemOutcomes = readonly ReplayResult[] | "WAITING" | "CANCELLED";

function outcomeCondition(outcomes: ItemOutcomes | undefined): Statement {
  if (outcomes === undefined) {
    return sql`true`;
  }
  if (outcomes === "WAITING") {
    return sql`i.result IS NULL AND j.state <> 'CANCELLED'`;
  }
  return outcomes === "CANCELLED"
    ? sql`i.result IS NULL AND j.state = 'CANCELLED'`
    : sql`i.result = ANY (${outcomes})`;
}

/** Returns items of a job by position, after `after`. */
export async function listReplayItems(
  db: Queryable,
  {
    tenantId,
    jobId,
    after,
    limit,
    outcomes,
  }: {
    readonly tenantId: string;
    readonly jobId: string;
    readonly after: number;
    readonly limit: number;
    /** Returns only items with these outcomes, if given. */
    readonly outcomes: ItemOutcomes | undefined;
  },
): Promise<ReplayItem[]> {
  const { rows } = await db.query<ReplayItem>(
    sql`SELECT i.position, i.delivery_id AS "deliveryId", i.event_id AS "eventId", i.result, i.result IS NULL AND j.state = 'CANCELLED' AS cancelled
      FROM replay_items i JOIN replay_jobs j ON j.id = i.job_id
      WHERE i.job_id = ${jobId} AND i.tenant_id = ${tenantId} AND i.position > ${after} AND ${outcomeCondition(outcomes)}
      ORDER BY i.position LIMIT ${limit}`,
  );
  return rows;
}

/** A part of a job's items. */
export interface ReplayPage {
  readonly jobId: string;
  readonly tenantId: string;
  /** Position before the first item. */
  readonly after: number;
  /** Position of the last item. */
  readonly upTo: number;
  readonly now: Date;
}

/** A delivery moved by a page, and its former workflow. */
export interface ReplayedItem {
  readonly id: string;
  readonly carrier: string | null;
}

export interface ReplayedPage {
  readonly results: readonly ReplayResult[];
  readonly moved: readonly ReplayedItem[];
}

/**
 * Returns the dead letters of a page to the outbox, in the transaction that locks the job (role signet_worker). A
 * letter stays unchanged if it has left the queue or died again since the job was created, or if its endpoint is
 * deleted.
 */
export async function replayPageOfDead(db: Queryable, page: ReplayPage): Promise<ReplayedPage> {
  const { rows: items } = await db.query<{
    position: number;
    day: string;
    delivery_id: string | null;
    cycle: number | null;
  }>({
    name: "replay-page",
    text: `SELECT position, day, delivery_id, cycle FROM replay_items
      WHERE job_id = $1 AND tenant_id = $2 AND position > $3 AND position <= $4 AND result IS NULL ORDER BY position`,
    values: [page.jobId, page.tenantId, page.after, page.upTo],
  });
  const { rows } = await db.query<{ id: string | null; carrier: string | null; result: ReplayResult }>({
    name: "replay-page-of-dead",
    ...sql`WITH page AS MATERIALIZED (
        SELECT * FROM unnest(
          ${items.map((item) => item.position)}::int[],
          ${items.map((item) => item.day)}::date[],
          ${items.map((item) => item.delivery_id)}::text[],
          ${items.map((item) => item.cycle)}::int[]) AS p(position, day, id, cycle)
      ), locked AS MATERIALIZED (
        -- The same order on every page prevents deadlocks between two jobs with the same letters.
        SELECT p.position, p.cycle AS wanted, d.day, d.id, d.state, d.reason, d.carrier, d.cycle, d.expires_at,
          ${raw(HAS_ENDPOINT)} AS reachable
        FROM page p JOIN deliveries d ON d.day = p.day AND d.id = p.id
        WHERE d.tenant_id = ${page.tenantId} ORDER BY d.day, d.id FOR UPDATE OF d
      ), queued AS (
        UPDATE deliveries d SET state = 'QUEUED', cycle = d.cycle + 1, epoch = d.epoch + 1, carrier = NULL,
          claimed_at = NULL, attempt_count = 0, cycle_started_at = NULL, next_attempt_at = NULL, reason = NULL,
          dead_lettered_at = NULL, expires_at = NULL
        FROM locked l WHERE d.day = l.day AND d.id = l.id AND l.state = 'DEAD_LETTERED' AND l.cycle = l.wanted
          AND l.expires_at > ${page.now} AND l.reachable
        RETURNING l.position
      ), judged AS (
        SELECT p.position, l.id, l.carrier, CASE
            WHEN q.position IS NOT NULL THEN 'replayed'
            WHEN l.id IS NULL THEN 'not_found'
            WHEN l.cycle = l.wanted AND l.state = 'DEAD_LETTERED' AND l.expires_at > ${page.now} THEN 'endpoint_unavailable'
            WHEN l.cycle = l.wanted AND l.state IN ('EXPIRED', 'DEAD_LETTERED') THEN 'expired'
            WHEN l.reason = 'content_erased' THEN 'content_erased'
            ELSE 'not_in_queue' END AS result
        FROM page p LEFT JOIN locked l ON l.position = p.position LEFT JOIN queued q ON q.position = p.position
      ), written AS (
        UPDATE replay_items i SET result = j.result FROM judged j WHERE i.job_id = ${page.jobId} AND i.position = j.position
      ), told AS MATERIALIZED (
        SELECT ${raw(notifyOutbox("n", "tenant"))}
        FROM (SELECT count(*) AS n, ${page.tenantId}::text AS tenant FROM queued) counted WHERE n > 0
      )
      SELECT id, carrier, result FROM judged LEFT JOIN told ON true`,
  });
  return {
    results: rows.map((row) => row.result),
    moved: rows.flatMap(({ id, carrier, result }) =>
      result === "replayed" && id !== null ? [{ id, carrier }] : [],
    ),
  };
}
