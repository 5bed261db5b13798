/** Events that an endpoint never received, because it was registered later or was not ACTIVE at their acceptance. */
import { idDay, idTimeMs, newId, type RandomBytes } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { lateral, raw, sql } from "#database/sql.ts";
import { deliveryIdsOf } from "./delivery-filter.ts";
import { findEvents, notifyOutbox, type StoredContent } from "./events.ts";
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

/** Number of events that are compared to the endpoint's deliveries at a time. */
const COMPARED = 2_000;

/** Returns which of these events have a delivery to an endpoint. Reads the deliveries of the same instants. */
async function deliveredOf(
  db: Queryable,
  endpointId: string,
  eventIds: readonly string[],
): Promise<ReadonlySet<string>> {
  // Published together, events share an instant, which is read once.
  const instants = new Map(eventIds.map((id) => [deliveryIdsOf(id)[0], id]));
  const ids = [...instants.values()];
  const bounds = ids.map(deliveryIdsOf);
  const { rows } = await db.query<{ event_id: string }>({
    name: "delivered-of",
    text: `SELECT d.event_id FROM unnest($1::date[], $2::text[], $3::text[]) AS i(day, low, high)
      CROSS JOIN ${lateral("deliveries", "d", "day = i.day AND id >= i.low AND id < i.high AND endpoint_id = $4", "event_id")}`,
    values: [ids.map(idDay), bounds.map(([from]) => from), bounds.map(([, to]) => to), endpointId],
  });
  return new Set(rows.map((row) => row.event_id));
}

/** Returns events of the endpoint's types, oldest first, except those with erased content. */
async function findAcceptable(
  db: Queryable,
  { tenantId, eventTypes, since, until }: MissingQuery,
  after: string,
): Promise<{ id: string; type: string }[]> {
  return await readOnward(after === "" ? undefined : after, COMPARED, async (onward, most) => {
    const { day = null, id = null } = onward ?? {};
    const { rows } = await db.query<{ id: string; type: string }>(
      sql`SELECT e.id, e.type FROM events e
        WHERE e.tenant_id = ${tenantId} AND e.created_at >= ${since} AND e.created_at < ${until}
          AND e.day >= (${since}::timestamptz AT TIME ZONE 'UTC')::date AND e.day <= (${until}::timestamptz AT TIME ZONE 'UTC')::date
          AND (${eventTypes}::text[] = '{*}' OR e.type = ANY (${eventTypes})) AND e.content_erased_at IS NULL
          -- Security events go to the streams that took them.
          AND e.type NOT LIKE 'signet.%'
          AND (${day}::date IS NULL OR (${id}::text IS NULL AND e.day >= ${day}::date + 1) OR (e.day = ${day} AND e.id > ${id}))
        ORDER BY e.day, e.id LIMIT ${most}`,
    );
    return rows;
  });
}

/**
 * Returns events of the endpoint's types without a delivery to it, oldest first, except those with erased content.
 *
 * @param withContent whether to load the contents, for an endpoint with a filter
 */
export async function findMissedEvents(
  db: Queryable,
  query: MissingQuery,
  { after, withContent }: { readonly after: string; readonly withContent: boolean },
): Promise<MissedEvent[]> {
  const missed: { id: string; type: string }[] = [];
  let compared: readonly { id: string; type: string }[];
  let last = after;
  do {
    compared = await findAcceptable(db, query, last);
    const ids = compared.map(({ id }) => id);
    const delivered = await deliveredOf(db, query.endpointId, ids);
    missed.push(...compared.filter(({ id }) => !delivered.has(id)));
    last = ids.at(-1) ?? last;
  } while (missed.length < query.limit && compared.length === COMPARED);
  const page = missed.slice(0, query.limit);
  if (!withContent) {
    return page.map((event) => ({ ...event, data: null, content: null }));
  }
  const ids = page.map(({ id }) => id);
  const contents = new Map((await findEvents(db, query.tenantId, ids)).map((event) => [event.id, event]));
  return page.map((event) => {
    const { data = null, content = null } = contents.get(event.id) ?? {};
    return { ...event, data, content };
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
  const eventIds = items.map((item) => item.event_id);
  const delivered = await deliveredOf(db, page.endpointId, eventIds);
  // A delivery has the instant of its event.
  const deliveryIds = items.map((item) => newId("delivery", idTimeMs(item.event_id), randomBytes));
  const { rows } = await db.query<{ result: ReplayResult }>({
    name: "make-missing-page",
    ...sql`WITH page AS MATERIALIZED (
        SELECT * FROM unnest(
          ${items.map((item) => item.position)}::int[],
          ${items.map((item) => idDay(item.event_id))}::date[],
          ${eventIds}::text[],
          ${deliveryIds}::text[],
          ${eventIds.map((id) => delivered.has(id))}::boolean[]) AS p(position, day, event_id, delivery_id, there)
      ), found AS MATERIALIZED (
        SELECT p.*, e.id, e.type, e.content_erased_at
        FROM page p LEFT JOIN events e ON e.day = p.day AND e.id = p.event_id AND e.tenant_id = ${page.tenantId}
      ), made AS (
        INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
        SELECT day, delivery_id, ${page.tenantId}, event_id, type, ${page.endpointId}, 'QUEUED', ${page.now} FROM found
        WHERE ${active === 1} AND id IS NOT NULL AND content_erased_at IS NULL AND NOT there
        RETURNING id, event_type
      ), counted AS (
        INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, hour, accepted)
        SELECT ${page.tenantId}, ${page.endpointId}, event_type, id_hour(id), count(*) FROM made GROUP BY 3, 4
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
        SELECT ${raw(notifyOutbox("n", "tenant"))}
        FROM (SELECT count(*) AS n, ${page.tenantId}::text AS tenant FROM made) counted WHERE n > 0
      )
      SELECT result FROM judged LEFT JOIN told ON true`,
  });
  return { results: rows.map((row) => row.result), moved: [], due: [] };
}
