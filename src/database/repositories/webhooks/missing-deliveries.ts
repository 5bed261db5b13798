/** Events that an endpoint never received, because it was registered later or was not ACTIVE at their acceptance. */
import { idDay, idTimeMs, newId, type RandomBytes } from "../../../domain/ids.ts";
import type { Queryable } from "../../pool.ts";
import { raw, sql } from "../../sql.ts";
import { notifyOutbox, type StoredContent } from "./events.ts";
import { readOnward } from "../page.ts";
import type { ReplayedPage, ReplayPage, ReplayResult } from "./replay-items.ts";

export interface MissingQuery {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly eventTypes: readonly string[];
  /** Earliest acceptance, inclusive. */
  readonly since: Date;
  /** Latest acceptance, exclusive. */
  readonly until: Date;
  readonly limit: number;
}

export interface MissedEvent extends StoredContent {
  readonly id: string;
  readonly type: string;
}

/**
 * Returns events of the endpoint's types without a delivery to it, oldest first, except those with erased content.
 *
 * @param withContent whether to load the contents, for an endpoint with a filter
 */
export async function findMissedEvents(
  db: Queryable,
  { tenantId, endpointId, eventTypes, since, until, limit }: MissingQuery,
  { after, withContent }: { readonly after: string; readonly withContent: boolean },
): Promise<MissedEvent[]> {
  return await readOnward(after === "" ? undefined : after, limit, async (onward, most) => {
    const { day = null, id = null } = onward ?? {};
    const { rows } = await db.query<MissedEvent>(
      sql`SELECT e.id, e.type, ${raw(withContent ? "e.data, e.content" : "NULL AS data, NULL::bytea AS content")} FROM events e
        WHERE e.tenant_id = ${tenantId} AND e.created_at >= ${since} AND e.created_at < ${until}
          AND e.day >= (${since}::timestamptz AT TIME ZONE 'UTC')::date AND e.day <= (${until}::timestamptz AT TIME ZONE 'UTC')::date
          AND (${eventTypes}::text[] = '{*}' OR e.type = ANY (${eventTypes})) AND e.content_erased_at IS NULL
          AND NOT EXISTS (SELECT FROM deliveries d WHERE d.day = e.day AND d.event_id = e.id AND d.endpoint_id = ${endpointId})
          AND (${day}::date IS NULL OR (${id}::text IS NULL AND e.day > ${day}) OR (e.day = ${day} AND e.id > ${id}))
        ORDER BY e.day, e.id LIMIT ${most}`,
    );
    return rows;
  });
}

/** Adds such events to the items of a new job (role signet_api). */
export async function insertMissingItems(
  db: Queryable,
  {
    jobId,
    tenantId,
    after,
    eventIds,
  }: {
    readonly jobId: string;
    readonly tenantId: string;
    /** Position of the job's last item so far. */
    readonly after: number;
    readonly eventIds: readonly string[];
  },
): Promise<void> {
  await db.query({
    name: "insert-missing-items",
    text: `INSERT INTO replay_items (job_id, position, tenant_id, day, event_id)
      SELECT $1, $3 + w.n, $2, w.day, w.id FROM unnest($4::date[], $5::text[]) WITH ORDINALITY AS w(day, id, n)`,
    values: [jobId, tenantId, after, eventIds.map(idDay), eventIds],
  });
}

/**
 * Creates the deliveries of a page, in the transaction that locks the job (role signet_worker). It also locks the
 * endpoint: two jobs never create two deliveries of one event, and a just-disabled endpoint gets none.
 */
export async function makeMissingPage(
  db: Queryable,
  page: ReplayPage & { readonly endpointId: string },
  randomBytes: RandomBytes,
): Promise<ReplayedPage> {
  const { rows: items } = await db.query<{ position: number; event_id: string }>({
    name: "missing-page",
    text: `SELECT position, event_id FROM replay_items
      WHERE job_id = $1 AND tenant_id = $2 AND position > $3 AND position <= $4 AND result IS NULL ORDER BY position`,
    values: [page.jobId, page.tenantId, page.after, page.upTo],
  });
  const { rowCount: active } = await db.query(
    "SELECT FROM endpoints WHERE id = $1 AND tenant_id = $2 AND state = 'ACTIVE' FOR NO KEY UPDATE",
    [page.endpointId, page.tenantId],
  );
  // A delivery has the day of its event.
  const deliveryIds = items.map((item) => newId("delivery", idTimeMs(item.event_id), randomBytes));
  const { rows } = await db.query<{ result: ReplayResult }>({
    name: "make-missing-page",
    ...sql`WITH page AS MATERIALIZED (
        SELECT * FROM unnest(
          ${items.map((item) => item.position)}::int[],
          ${items.map((item) => idDay(item.event_id))}::date[],
          ${items.map((item) => item.event_id)}::text[],
          ${deliveryIds}::text[]) AS p(position, day, event_id, delivery_id)
      ), found AS MATERIALIZED (
        SELECT p.*, e.id, e.type, e.content_erased_at,
          EXISTS (SELECT FROM deliveries d WHERE d.day = p.day AND d.event_id = p.event_id AND d.endpoint_id = ${page.endpointId}) AS there
        FROM page p LEFT JOIN events e ON e.day = p.day AND e.id = p.event_id AND e.tenant_id = ${page.tenantId}
      ), made AS (
        INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
        SELECT day, delivery_id, ${page.tenantId}, event_id, type, ${page.endpointId}, 'QUEUED', ${page.now} FROM found
        WHERE ${active === 1} AND id IS NOT NULL AND content_erased_at IS NULL AND NOT there
        RETURNING id
      ), judged AS (
        SELECT f.position, m.id AS delivery_id, CASE
            WHEN m.id IS NOT NULL THEN 'replayed'
            WHEN f.id IS NULL THEN 'expired'
            WHEN f.content_erased_at IS NOT NULL THEN 'content_erased'
            WHEN f.there THEN 'delivery_exists'
            ELSE 'endpoint_unavailable' END AS result
        FROM found f LEFT JOIN made m ON m.id = f.delivery_id
      ), written AS (
        UPDATE replay_items i SET result = j.result, delivery_id = j.delivery_id
        FROM judged j WHERE i.job_id = ${page.jobId} AND i.position = j.position
      ), told AS MATERIALIZED (
        SELECT ${raw(notifyOutbox("n"))} FROM (SELECT count(*) AS n FROM made) counted WHERE n > 0
      )
      SELECT result FROM judged LEFT JOIN told ON true`,
  });
  return { results: rows.map((row) => row.result), moved: [] };
}
