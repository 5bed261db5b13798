/** What explains the state of a tenant's delivery, event or endpoint (role signet_api, in a read of the tenant). */
import { idDay } from "../../../domain/ids.ts";
import type { AttemptError } from "../../../domain/delivery.ts";
import type { Queryable } from "../../pool.ts";

/** Maximum number of deliveries that are counted or sampled. */
const COUNTED_MAX = 1_000;

/** Returns how many of the tenant's deliveries wait for a worker before this one, 1,000 at most. */
export async function countWaitingBefore(db: Queryable, tenantId: string, id: string): Promise<number> {
  const { rows } = await db.query<{ n: number }>({
    name: "count-waiting-before",
    text: `SELECT count(*)::int AS n FROM (SELECT FROM deliveries WHERE carrier IS NULL AND state = 'QUEUED'
        AND tenant_id = $1 AND id < $2 ORDER BY id LIMIT ${COUNTED_MAX}) w`,
    values: [tenantId, id],
  });
  return rows[0]?.n ?? 0;
}

/** The newest deliveries of an endpoint that have an outcome. */
export interface RecentDeliveries {
  readonly total: number;
  readonly delivered: number;
  readonly retrying: number;
  readonly dead: number;
  /** Of the newest one whose last attempt failed; null if none has. */
  readonly lastError: AttemptError | null;
  readonly lastStatus: number | null;
  readonly lastFailed: string | null;
}

/** Counts the newest deliveries of an endpoint, 1,000 at most. */
export async function readRecentDeliveries(
  db: Queryable,
  tenantId: string,
  endpointId: string,
): Promise<RecentDeliveries> {
  const { rows } = await db.query<RecentDeliveries>({
    name: "read-recent-deliveries",
    text: `WITH newest AS MATERIALIZED (
        SELECT d.id, d.state, d.last_error, d.last_status FROM deliveries d
        WHERE d.tenant_id = $1 AND d.endpoint_id = $2 AND d.state <> 'QUEUED' ORDER BY d.day DESC, d.id DESC LIMIT ${COUNTED_MAX}
      ), failed AS (
        SELECT id, last_error, last_status FROM newest WHERE last_error IS NOT NULL ORDER BY id DESC LIMIT 1
      )
      SELECT count(*)::int AS total, count(*) FILTER (WHERE state = 'DELIVERED')::int AS delivered,
        count(*) FILTER (WHERE state = 'RETRYING')::int AS retrying,
        count(*) FILTER (WHERE state IN ('DEAD_LETTERED', 'EXPIRED'))::int AS dead,
        (SELECT last_error FROM failed) AS "lastError", (SELECT last_status FROM failed) AS "lastStatus",
        (SELECT id FROM failed) AS "lastFailed"
      FROM newest`,
    values: [tenantId, endpointId],
  });
  return rows[0] as RecentDeliveries;
}

/** An event without its content. */
export interface EventFacts {
  readonly id: string;
  readonly type: string;
  readonly sourceId: string | null;
  readonly occurredAt: Date;
  readonly createdAt: Date;
  /** Number of deliveries at its acceptance. */
  readonly deliveries: number;
  readonly contentErasedAt: Date | null;
}

/** Returns an event without reading its content. */
export async function findEventFacts(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<EventFacts | undefined> {
  const { rows } = await db.query<EventFacts>({
    name: "find-event-facts",
    text: `SELECT id, type, source_id AS "sourceId", occurred_at AS "occurredAt", created_at AS "createdAt", deliveries,
        content_erased_at AS "contentErasedAt"
      FROM events WHERE day = $1 AND id = $2 AND tenant_id = $3`,
    values: [idDay(id), id, tenantId],
  });
  return rows[0];
}
