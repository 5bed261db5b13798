/** Items of replay jobs: each is a delivery, or an event that an endpoint never received. */
import { idDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql, type Statement } from "#database/sql.ts";
import { FIRST_ATTEMPT, HAS_CONTENT, moveFirstAttempt, NEW_CYCLE, RESENT } from "./deliveries.ts";
import { type DeliveryFilter, partsOf, selectDeliveries } from "./delivery-filter.ts";
import { endpointAgainst, endpointsThatTake } from "../endpoints/endpoints.ts";
import { notifyOutbox } from "./events.ts";

/** Results of an item. */
export const REPLAY_RESULTS = [
  "replayed",
  "attempted",
  "not_in_queue",
  "state_changed",
  "content_erased",
  "delivery_exists",
  "expired",
  "not_found",
  "endpoint_disabled",
  "endpoint_unavailable",
] as const;
export type ReplayResult = (typeof REPLAY_RESULTS)[number];

/** States whose deliveries a job can replay. */
export const REPLAYABLE_STATES = ["DEAD_LETTERED", "RETRYING", "DELIVERED", "CANCELLED", "EXPIRED"] as const;
export type ReplayableState = (typeof REPLAYABLE_STATES)[number];

/** The dead letters of a job: a list of ids, or all that match a filter. */
export type DeadLetterSelection = { readonly ids: readonly string[] } | { readonly filter: DeliveryFilter };

/** The deliveries of a job: all in one of the states that match the filter. */
export interface StatesSelection {
  readonly states: readonly ReplayableState[];
  readonly filter: Omit<DeliveryFilter, "state">;
}

export interface SelectionOf<Selection = DeadLetterSelection | StatesSelection> {
  readonly tenantId: string;
  readonly selection: Selection;
  readonly now: Date;
}

/** What is listed by one statement. */
export type SelectionAtOnce = { readonly ids: readonly string[] } | StatesSelection;
type ListedAtOnce = SelectionOf<SelectionAtOnce>;

/** Joins named deliveries. LIMIT keeps the planner from scanning whole partitions for a long list of ids. */
function named(tenantId: string): Statement {
  return sql`JOIN LATERAL (
    SELECT day, id, event_id, endpoint_id, cycle, state, expires_at FROM deliveries n
    WHERE n.day = w.day AND n.id = w.id AND n.tenant_id = ${tenantId} LIMIT 1
  ) d ON true`;
}

/** Returns a filter for each state that a selection by filter contains. Each state has an index of its own. */
export function filtersOf(
  selection: StatesSelection | { readonly filter: DeliveryFilter },
): readonly (DeliveryFilter & { readonly state: ReplayableState })[] {
  if ("states" in selection) {
    return selection.states.map((state) => ({ ...selection.filter, state }));
  }
  // Only DEAD_LETTERED can match, as in the list of the queue.
  const { state = "DEAD_LETTERED", ...filter } = selection.filter;
  return state === "DEAD_LETTERED" ? [{ ...filter, state }] : [];
}

function selected({ tenantId, selection, now }: ListedAtOnce): Statement {
  if ("filter" in selection) {
    const parts = filtersOf(selection).map(
      (filter) =>
        sql`SELECT d.day, d.id, d.event_id, d.endpoint_id, d.cycle, ${filter.state}::text AS state FROM deliveries d
        WHERE ${selectDeliveries({ tenantId, filter, now })}`,
    );
    return sql`SELECT * FROM (${parts.reduce((all, part) => sql`${all} UNION ALL ${part}`)}) d`;
  }
  return sql`SELECT d.day, d.id, d.event_id, d.endpoint_id, d.cycle, NULL AS state
    FROM unnest(${selection.ids.map(idDay)}::date[], ${selection.ids}::text[]) AS w(day, id) ${named(tenantId)}
    WHERE d.state = 'DEAD_LETTERED' AND d.expires_at > ${now}`;
}

/** How many deliveries a selection contains, and whether all of them were compared. */
export interface Counted {
  readonly total: number;
  /** How many of them would fail now, because their endpoint is disabled, unverified or deleted. */
  readonly wouldFail: number;
  readonly complete: boolean;
}

/** Returns an aggregate: how many of the deliveries `d` that match would fail at their endpoint. */
function countFailing(tenantId: string, matches: Statement, begun: boolean): Statement {
  const taken = endpointsThatTake(tenantId, begun);
  return sql`count(*) FILTER (WHERE ${matches} AND d.endpoint_id NOT IN (${taken})) AS fails`;
}

/** Counts the deliveries of a selection among the oldest `limit` that could match, by the index of each state. */
export async function countSelected(db: Queryable, of: SelectionOf, limit: number): Promise<Counted> {
  const { tenantId, selection, now } = of;
  if ("ids" in selection) {
    const { rows } = await db.query<{ n: number; fails: number }>(
      sql`SELECT count(*) AS n, ${countFailing(tenantId, sql`true`, false)}
        FROM (${selected({ ...of, selection })}) d`,
    );
    return { total: rows[0]?.n ?? 0, wouldFail: rows[0]?.fails ?? 0, complete: true };
  }
  let [total, wouldFail, open] = [0, 0, limit];
  for (const filter of filtersOf(selection)) {
    const matches = selectDeliveries({ tenantId, filter, now });
    for (const { where } of partsOf({ tenantId, filter, now })) {
      const { rows } = await db.query<{ n: number; fails: number; compared: number }>(
        sql`SELECT count(*) AS compared, count(*) FILTER (WHERE ${matches}) AS n,
            ${countFailing(tenantId, matches, filter.state === "RETRYING")}
          FROM (SELECT d.* FROM deliveries d WHERE ${where} ORDER BY d.day, d.id LIMIT ${open}) d`,
      );
      const [found = { n: 0, fails: 0, compared: 0 }] = rows;
      total += found.n;
      wouldFail += found.fails;
      open -= found.compared;
      if (open === 0) {
        return { total, wouldFail, complete: false };
      }
    }
  }
  return { total, wouldFail, complete: true };
}

/** Creates the items of a new job, oldest first, at most `limit`. Returns their number (role signet_api). */
export async function insertSelectedItems(
  db: Queryable,
  jobId: string,
  of: ListedAtOnce,
  limit: number,
): Promise<number> {
  const { rowCount } = await db.query(
    sql`INSERT INTO replay_items (job_id, position, tenant_id, day, delivery_id, event_id, cycle, state)
      SELECT ${jobId}, row_number() OVER (ORDER BY day, id), ${of.tenantId}, day, id, event_id, cycle, state
      FROM (${selected(of)} ORDER BY d.day, d.id LIMIT ${limit}) chosen`,
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

/**
 * What a replay has come to since: `RETRYING` after a failed attempt, `FAILED` if the delivery is a dead letter again,
 * `WAITING` before the first outcome.
 */
export const REPLAY_OUTCOMES = ["DELIVERED", "RETRYING", "FAILED", "CANCELLED", "WAITING"] as const;
export type ReplayOutcome = (typeof REPLAY_OUTCOMES)[number];

/**
 * SQL of the {@link ReplayOutcome} of an item `i` with the delivery `d`; null if it was not replayed or is no longer
 * stored. If a later cycle has begun, the attempts of the job's own cycle decide.
 */
const OUTCOME = `CASE
    WHEN i.result IS NULL OR i.result NOT IN ('replayed', 'attempted') OR d.id IS NULL THEN NULL
    WHEN d.cycle > CASE i.result WHEN 'attempted' THEN i.cycle ELSE coalesce(i.cycle + 1, 1) END THEN
      CASE WHEN EXISTS (SELECT FROM attempts a WHERE a.day = i.day AND a.delivery_id = i.delivery_id
        AND a.cycle = CASE i.result WHEN 'attempted' THEN i.cycle ELSE coalesce(i.cycle + 1, 1) END
        AND a.duration_ms IS NOT NULL AND a.error IS NULL) THEN 'DELIVERED' ELSE 'FAILED' END
    WHEN d.state IN ('DELIVERED', 'CANCELLED') THEN d.state
    WHEN d.state IN ('DEAD_LETTERED', 'EXPIRED') THEN 'FAILED'
    WHEN d.attempt_count > coalesce(i.attempts, 0) THEN 'RETRYING'
    ELSE 'WAITING' END`;

/** LIMIT keeps the planner from reading all deliveries of the tenant for a job with many items. */
const ITEMS_WITH_DELIVERIES = `replay_items i
      LEFT JOIN LATERAL (
        SELECT * FROM deliveries n WHERE n.day = i.day AND n.id = i.delivery_id AND n.tenant_id = i.tenant_id LIMIT 1
      ) d ON true`;

/** Counts the outcomes of a job's replays, among its first `limit` items. */
export async function countOutcomes(
  db: Queryable,
  { tenantId, jobId, limit }: { readonly tenantId: string; readonly jobId: string; readonly limit: number },
): Promise<Readonly<Record<ReplayOutcome, number>>> {
  const { rows } = await db.query<{ outcome: ReplayOutcome | null; n: number }>({
    name: "count-replay-outcomes",
    text: `SELECT ${OUTCOME} AS outcome, count(*)::int AS n FROM ${ITEMS_WITH_DELIVERIES}
      WHERE i.job_id = $1 AND i.tenant_id = $2 AND i.position <= $3 GROUP BY 1`,
    values: [jobId, tenantId, limit],
  });
  const counts = { DELIVERED: 0, RETRYING: 0, FAILED: 0, CANCELLED: 0, WAITING: 0 };
  for (const { outcome, n } of rows) {
    if (outcome !== null) {
      counts[outcome] = n;
    }
  }
  return counts;
}

export interface ReplayItem {
  readonly position: number;
  readonly delivery_id: string | null;
  readonly event_id: string | null;
  /** Null while the item waits, or if its job was cancelled first. */
  readonly result: ReplayResult | null;
  readonly cancelled: boolean;
  /** What the replay has come to; null if the item was not replayed. */
  readonly outcome: ReplayOutcome | null;
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

/** Items that a page reads at most to find those that match its filters, about 10 ms. */
export const ITEMS_READ_MAX = 1_000;

/** Returns items of a job by position, after `after`, out of the next {@link ITEMS_READ_MAX}. */
export async function listReplayItems(
  db: Queryable,
  {
    tenantId,
    jobId,
    after,
    limit,
    outcomes,
    outcome,
  }: {
    readonly tenantId: string;
    readonly jobId: string;
    readonly after: number;
    readonly limit: number;
    /** Returns only items with these results, if given. */
    readonly outcomes: ItemOutcomes | undefined;
    /** Returns only items whose replay has come to this, if given. */
    readonly outcome?: ReplayOutcome | undefined;
  },
): Promise<ReplayItem[]> {
  const { rows } = await db.query<ReplayItem>(
    sql`SELECT i.position, i.delivery_id, i.event_id, i.result, i.result IS NULL AND j.state = 'CANCELLED' AS cancelled,
        ${raw(OUTCOME)} AS outcome
      FROM ${raw(ITEMS_WITH_DELIVERIES)} JOIN replay_jobs j ON j.id = i.job_id
      WHERE i.job_id = ${jobId} AND i.tenant_id = ${tenantId}
        AND i.position > ${after} AND i.position <= ${after + ITEMS_READ_MAX} AND ${outcomeCondition(outcomes)}
        AND (${outcome ?? null}::text IS NULL OR ${outcome ?? null} = ${raw(OUTCOME)})
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

/** A delivery that a page changed, and its workflow. */
export interface ReplayedItem {
  readonly id: string;
  readonly carrier: string | null;
}

export interface ReplayedPage {
  readonly results: readonly ReplayResult[];
  /** Deliveries that their former carriers must release. */
  readonly moved: readonly ReplayedItem[];
  /** Deliveries whose carriers must make the next attempt now. */
  readonly due: readonly ReplayedItem[];
}

interface PageOfDeliveries extends ReplayPage {
  /** Whether the job replays dead letters. */
  readonly deadLetters: boolean;
}

interface WaitingItem {
  readonly position: number;
  readonly day: string;
  readonly delivery_id: string | null;
  readonly cycle: number | null;
  readonly state: string | null;
}

/** Returns the statement that locks the deliveries of the items, judges each, and changes it accordingly. */
function pageStatement(
  { jobId, tenantId, now, deadLetters }: PageOfDeliveries,
  items: readonly WaitingItem[],
): Statement {
  return sql`WITH page AS MATERIALIZED (
      SELECT position, day, id, cycle, coalesce(state, 'DEAD_LETTERED') AS state,
        CASE WHEN state IS NULL THEN 'not_in_queue' ELSE 'state_changed' END AS otherwise
      FROM unnest(
        ${items.map((item) => item.position)}::int[],
        ${items.map((item) => item.day)}::date[],
        ${items.map((item) => item.delivery_id)}::text[],
        ${items.map((item) => item.cycle)}::int[],
        ${items.map((item) => item.state)}::text[]) AS p(position, day, id, cycle, state)
    ), locked AS MATERIALIZED (
      -- The same order on every page prevents deadlocks between two jobs with the same letters.
      SELECT p.position, d.day, d.id, d.reason, d.carrier, d.cycle, d.attempt_count, d.state = 'DEAD_LETTERED' AS held,
        CASE WHEN d.state = 'DEAD_LETTERED' AND d.expires_at <= ${now} THEN 'EXPIRED' ELSE d.state END AS state,
        ${raw(FIRST_ATTEMPT)},
        CASE WHEN d.state = 'RETRYING' THEN ${raw(endpointAgainst(true))} ELSE ${raw(endpointAgainst(false))} END AS against,
        p.state IN ('DEAD_LETTERED', 'RETRYING') OR ${raw(HAS_CONTENT)} AS kept
      FROM page p JOIN deliveries d ON d.day = p.day AND d.id = p.id
      WHERE d.tenant_id = ${tenantId} ORDER BY d.day, d.id FOR UPDATE OF d
    ), judged AS MATERIALIZED (
      SELECT p.position AS item, p.state IN ('DEAD_LETTERED', 'RETRYING') AS had_failed, l.*, CASE
          WHEN l.id IS NULL THEN 'not_found'
          WHEN l.cycle <> p.cycle THEN CASE WHEN l.reason = 'content_erased' THEN l.reason ELSE p.otherwise END
          WHEN p.state = 'RETRYING' AND l.state = 'RETRYING' THEN coalesce(l.against, 'attempted')
          WHEN l.state = p.state OR (p.state = 'RETRYING' AND l.state = 'DEAD_LETTERED' AND ${deadLetters}) THEN
            CASE WHEN l.against IS NOT NULL THEN l.against WHEN NOT l.kept THEN 'content_erased' ELSE 'replayed' END
          WHEN l.state = 'EXPIRED' THEN 'expired'
          WHEN l.reason = 'content_erased' THEN l.reason
          ELSE p.otherwise END AS result
      FROM page p LEFT JOIN locked l ON l.position = p.position
    ), queued AS (
      UPDATE deliveries d SET ${raw(NEW_CYCLE)}
      FROM judged j WHERE d.day = j.day AND d.id = j.id AND j.result = 'replayed' AND j.had_failed
      RETURNING d.id
    ), resent AS MATERIALIZED (
      SELECT * FROM judged WHERE result = 'replayed' AND NOT had_failed
    ), moved AS (
      ${raw(moveFirstAttempt("resent"))}
    ), queued_again AS (
      UPDATE deliveries d SET ${raw(NEW_CYCLE)}, ${raw(RESENT)}
      FROM resent WHERE d.day = resent.day AND d.id = resent.id RETURNING d.id
    ), hastened AS (
      UPDATE deliveries d SET next_attempt_at = least(d.next_attempt_at, ${now})
      FROM judged j WHERE d.day = j.day AND d.id = j.id AND j.result = 'attempted'
      RETURNING d.id
    ), written AS (
      UPDATE replay_items i SET result = j.result, attempts = CASE j.result WHEN 'attempted' THEN j.attempt_count END
      FROM judged j WHERE i.job_id = ${jobId} AND i.position = j.item
    ), told AS MATERIALIZED (
      SELECT ${raw(notifyOutbox("n", "tenant"))}
      FROM (
        SELECT (SELECT count(*) FROM queued) + (SELECT count(*) FROM queued_again) + (SELECT count(*) FROM hastened) AS n,
          ${tenantId}::text AS tenant
      ) counted WHERE n > 0
    )
    SELECT j.id, j.carrier, j.held, j.result FROM judged j LEFT JOIN told ON true`;
}

/**
 * Carries out the items of a page, in the transaction that locks the job (role signet_worker). Retries become due now;
 * the other deliveries return to the outbox with a new cycle. A delivery stays unchanged if it has left its state or
 * cycle since the job was created, if its endpoint is disabled or deleted, or its content erased. A retry that failed for the last time
 * meanwhile is replayed, if the job includes dead letters.
 */
export async function replayPageOfDeliveries(db: Queryable, page: PageOfDeliveries): Promise<ReplayedPage> {
  const { rows: items } = await db.query<WaitingItem>({
    name: "replay-page",
    text: `SELECT position, day, delivery_id, cycle, state FROM replay_items
      WHERE job_id = $1 AND tenant_id = $2 AND position > $3 AND position <= $4 AND result IS NULL ORDER BY position`,
    values: [page.jobId, page.tenantId, page.after, page.upTo],
  });
  const { rows } = await db.query<{
    id: string | null;
    carrier: string | null;
    held: boolean;
    result: ReplayResult;
  }>({ name: "replay-page-of-deliveries", ...pageStatement(page, items) });
  const changed = rows.flatMap(({ id, ...row }) => (id === null ? [] : [{ id, ...row }]));
  return {
    results: rows.map((row) => row.result),
    // Only dead letters have a carrier that is still open.
    moved: changed.filter(({ result, held }) => result === "replayed" && held),
    due: changed.filter(({ result }) => result === "attempted"),
  };
}
