/** What explains the state of a tenant's delivery or event (role signet_api, in a read of the tenant). */
import { idDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { planTransactionInOrder } from "#database/transaction.ts";
import type { Row } from "#database/rows.ts";

/** Maximum number of deliveries that are counted. */
const COUNTED_MAX = 1_000;

/** Returns how many of the tenant's deliveries wait for a worker before this one, 1,000 at most. */
export async function countWaitingBefore(db: Queryable, tenantId: string, id: string): Promise<number> {
  await planTransactionInOrder(db);
  const { rows } = await db.query<{ n: number }>({
    name: "count-waiting-before",
    text: `SELECT count(*)::int AS n FROM (SELECT FROM deliveries WHERE carrier IS NULL AND state = 'QUEUED'
        AND tenant_id = $1 AND id < $2 ORDER BY id LIMIT ${COUNTED_MAX}) w`,
    values: [tenantId, id],
  });
  return rows[0]?.n ?? 0;
}

/** An event without its content. */
export type EventFacts = Row<
  "events",
  | "id"
  | "tenant_id"
  | "type"
  | "source_id"
  | "occurred_at"
  | "created_at"
  | "deliveries"
  | "content_erased_at"
>;

/** Returns an event without reading its content. */
export async function findEventFacts(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<EventFacts | undefined> {
  const { rows } = await db.query<EventFacts>({
    name: "find-event-facts",
    text: `SELECT id, tenant_id, type, source_id, occurred_at, created_at, deliveries, content_erased_at
      FROM events WHERE day = $1 AND id = $2 AND tenant_id = $3`,
    values: [idDay(id), id, tenantId],
  });
  return rows[0];
}
