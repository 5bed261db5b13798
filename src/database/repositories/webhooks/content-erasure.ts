/** Erases the content of events (docs/decisions/0014-sealed-content.md). */
import { idDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { deliveryIdsOf } from "./delivery-filter.ts";

/** The event whose content is erased. */
export interface ErasedContent {
  readonly tenantId: string;
  readonly eventId: string;
  readonly now: Date;
}

/**
 * Erases an event's content, including the salt of its key.
 *
 * @returns whether it existed until now; undefined if there is no such event
 */
export async function destroyContent(
  db: Queryable,
  { tenantId, eventId, now }: ErasedContent,
): Promise<boolean | undefined> {
  const day = idDay(eventId);
  const { rowCount } = await db.query({
    name: "destroy-content",
    text: `UPDATE events SET data = NULL, content = NULL, content_erased_at = $4
      WHERE day = $1 AND id = $2 AND tenant_id = $3 AND content_erased_at IS NULL`,
    values: [day, eventId, tenantId, now],
  });
  if (rowCount === 1) {
    return true;
  }
  const found = await db.query({
    name: "find-erased-event",
    text: "SELECT FROM events WHERE day = $1 AND id = $2 AND tenant_id = $3",
    values: [day, eventId, tenantId],
  });
  return found.rowCount === 1 ? false : undefined;
}

/** A cancelled delivery and its workflow. */
export interface CancelledDelivery {
  readonly id: string;
  readonly carrier: string | null;
}

/** Cancels the deliveries of an event that are open or can be replayed. */
export async function cancelDeliveriesOf(
  db: Queryable,
  tenantId: string,
  eventId: string,
): Promise<CancelledDelivery[]> {
  const { rows } = await db.query<CancelledDelivery>({
    name: "cancel-deliveries-of",
    text: `UPDATE deliveries SET state = 'CANCELLED', reason = 'content_erased', next_attempt_at = NULL, expires_at = NULL
      WHERE day = $1 AND event_id = $2 AND tenant_id = $3 AND id >= $4 AND id < $5
        AND state IN ('QUEUED', 'RETRYING', 'DEAD_LETTERED')
      RETURNING id, carrier`,
    values: [idDay(eventId), eventId, tenantId, ...deliveryIdsOf(eventId)],
  });
  return rows;
}

/** Erases the receivers' responses to an event. Responses that are stored later cannot be opened with any key. */
export async function destroyAnswersTo(db: Queryable, tenantId: string, eventId: string): Promise<void> {
  await db.query({
    name: "destroy-answers-to",
    text: `WITH beside AS (
        UPDATE deliveries SET first_response = NULL
        WHERE day = $1 AND event_id = $2 AND tenant_id = $3 AND id >= $4 AND id < $5 AND first_response IS NOT NULL
      )
      UPDATE attempts a SET response = NULL, response_body = NULL FROM deliveries d
      WHERE d.day = $1 AND d.event_id = $2 AND d.tenant_id = $3 AND d.id >= $4 AND d.id < $5
        AND a.day = d.day AND a.delivery_id = d.id AND a.tenant_id = d.tenant_id
        AND (a.response IS NOT NULL OR a.response_body IS NOT NULL)`,
    values: [idDay(eventId), eventId, tenantId, ...deliveryIdsOf(eventId)],
  });
}
