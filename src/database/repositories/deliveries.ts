/** Deliveries as their tenant sees them: lists, timeline, dead letters, replay. */
import type { AttemptError, DeliveryReason, DeliveryState } from "../../domain/delivery.ts";
import { idDay } from "../../domain/ids.ts";
import type { Queryable } from "../pool.ts";
import { OUTBOX_CHANNEL } from "./events.ts";

export interface Delivery {
  readonly id: string;
  readonly eventId: string;
  readonly eventType: string;
  readonly endpointId: string;
  readonly state: DeliveryState;
  readonly reason: DeliveryReason | null;
  readonly cycle: number;
  readonly attemptCount: number;
  readonly nextAttemptAt: Date | null;
  readonly lastStatus: number | null;
  readonly lastError: AttemptError | null;
  readonly carrier: string | null;
  readonly createdAt: Date;
  readonly deliveredAt: Date | null;
  readonly deadLetteredAt: Date | null;
  readonly expiresAt: Date | null;
}

interface DeliveryRow {
  id: string;
  event_id: string;
  event_type: string;
  endpoint_id: string;
  state: DeliveryState;
  reason: DeliveryReason | null;
  cycle: number;
  attempt_count: number;
  next_attempt_at: Date | null;
  last_status: number | null;
  last_error: AttemptError | null;
  carrier: string | null;
  created_at: Date;
  delivered_at: Date | null;
  dead_lettered_at: Date | null;
  expires_at: Date | null;
}

function toDelivery(row: DeliveryRow): Delivery {
  return {
    id: row.id,
    eventId: row.event_id,
    eventType: row.event_type,
    endpointId: row.endpoint_id,
    state: row.state,
    reason: row.reason,
    cycle: row.cycle,
    attemptCount: row.attempt_count,
    nextAttemptAt: row.next_attempt_at,
    lastStatus: row.last_status,
    lastError: row.last_error,
    carrier: row.carrier,
    createdAt: row.created_at,
    deliveredAt: row.delivered_at,
    deadLetteredAt: row.dead_lettered_at,
    expiresAt: row.expires_at,
  };
}

/** A dead letter whose week is over is EXPIRED by the clock, whether or not anyone has written so. `$now` is a placeholder. */
function columns(now: string): string {
  return `d.id, d.event_id, d.event_type, d.endpoint_id,
    CASE WHEN d.state = 'DEAD_LETTERED' AND d.expires_at <= ${now} THEN 'EXPIRED' ELSE d.state END AS state,
    d.reason, d.cycle, d.attempt_count, d.next_attempt_at, d.last_status, d.last_error, d.carrier, d.created_at,
    d.delivered_at, d.dead_lettered_at, d.expires_at`;
}

export async function findDelivery(
  db: Queryable,
  { tenantId, id, now }: { readonly tenantId: string; readonly id: string; readonly now: Date },
): Promise<Delivery | undefined> {
  const { rows } = await db.query<DeliveryRow>({
    name: "find-delivery",
    text: `SELECT ${columns("$4")} FROM deliveries d WHERE d.day = $1 AND d.id = $2 AND d.tenant_id = $3`,
    values: [idDay(id), id, tenantId, now],
  });
  return rows[0] === undefined ? undefined : toDelivery(rows[0]);
}

export interface DeliveryFilter {
  readonly endpointId?: string | undefined;
  readonly eventId?: string | undefined;
  readonly eventType?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** Created at or after. */
  readonly from?: Date | undefined;
  /** Created before. */
  readonly to?: Date | undefined;
}

export interface DeliveryPage {
  readonly tenantId: string;
  readonly filter: DeliveryFilter;
  /** Only what comes after this delivery in the list, which is newest first. */
  readonly before: string | undefined;
  readonly limit: number;
  readonly now: Date;
}

/** Collects conditions with their values: filters come and go, and an absent one must not cost the planner its index. */
function pageQuery({ tenantId, filter, before, limit, now }: DeliveryPage): {
  text: string;
  values: unknown[];
} {
  const values: unknown[] = [tenantId, now];
  const conditions = ["d.tenant_id = $1"];
  const add = (condition: (placeholder: string) => string, value: unknown): void => {
    values.push(value);
    conditions.push(condition(`$${values.length}`));
  };
  if (before !== undefined) {
    // The row comparison seeks in the index; the day alone lets the planner leave out younger partitions.
    values.push(idDay(before), before);
    const [day, id] = [`$${values.length - 1}::date`, `$${values.length}`];
    conditions.push(`d.day <= ${day} AND (d.day, d.id) < (${day}, ${id})`);
  }
  if (filter.endpointId !== undefined) {
    add((value) => `d.endpoint_id = ${value}`, filter.endpointId);
  }
  if (filter.eventId !== undefined) {
    add((value) => `d.event_id = ${value}`, filter.eventId);
    // A delivery is made in the statement, and so on the day, of its event.
    add((day) => `d.day = ${day}`, idDay(filter.eventId));
  }
  if (filter.eventType !== undefined) {
    add((value) => `d.event_type = ${value}`, filter.eventType);
  }
  if (filter.state === "DEAD_LETTERED") {
    conditions.push("d.state = 'DEAD_LETTERED' AND d.expires_at > $2");
  } else if (filter.state === "EXPIRED") {
    conditions.push("(d.state = 'EXPIRED' OR (d.state = 'DEAD_LETTERED' AND d.expires_at <= $2))");
  } else if (filter.state !== undefined) {
    add((value) => `d.state = ${value}`, filter.state);
  }
  if (filter.from !== undefined) {
    add((from) => `d.created_at >= ${from}`, filter.from);
    add((day) => `d.day >= ${day}`, filter.from.toISOString().slice(0, 10));
  }
  if (filter.to !== undefined) {
    add((to) => `d.created_at < ${to}`, filter.to);
    add((day) => `d.day <= ${day}`, filter.to.toISOString().slice(0, 10));
  }
  values.push(limit);
  return {
    text: `SELECT ${columns("$2")} FROM deliveries d WHERE ${conditions.join(" AND ")}
      ORDER BY d.day DESC, d.id DESC LIMIT $${values.length}`,
    values,
  };
}

/** One page of a tenant's deliveries, newest first. */
export async function listDeliveries(db: Queryable, page: DeliveryPage): Promise<Delivery[]> {
  const { rows } = await db.query<DeliveryRow>(pageQuery(page));
  return rows.map(toDelivery);
}

export interface StoredAttempt {
  readonly id: string;
  readonly cycle: number;
  readonly attempt: number;
  readonly startedAt: Date;
  /** Null while the request is under way. */
  readonly durationMs: number | null;
  readonly status: number | null;
  readonly error: AttemptError | null;
  /** As it came, of events from before contents were sealed. */
  readonly responseBody: string | null;
  /** Sealed beside the event's content. */
  readonly response: Buffer | null;
}

/** Every attempt of a delivery, in the order they were made. */
export async function listAttempts(
  db: Queryable,
  tenantId: string,
  deliveryId: string,
): Promise<StoredAttempt[]> {
  const { rows } = await db.query<{
    id: string;
    cycle: number;
    attempt: number;
    started_at: Date;
    duration_ms: number | null;
    status: number | null;
    error: AttemptError | null;
    response_body: string | null;
    response: Buffer | null;
  }>({
    name: "list-attempts",
    text: `SELECT id, cycle, attempt, started_at, duration_ms, status, error, response_body, response FROM attempts
      WHERE day = $1 AND delivery_id = $2 AND tenant_id = $3 ORDER BY cycle, attempt`,
    values: [idDay(deliveryId), deliveryId, tenantId],
  });
  return rows.map((row) => ({
    id: row.id,
    cycle: row.cycle,
    attempt: row.attempt,
    startedAt: row.started_at,
    durationMs: row.duration_ms,
    status: row.status,
    error: row.error,
    responseBody: row.response_body,
    response: row.response,
  }));
}

/**
 * Sends a dead letter back to the outbox with a fresh cycle and tells the worker. The carrier is returned so that it
 * can be told to let go; a second replay finds nothing to do.
 */
export async function replayDeadLetter(
  db: Queryable,
  { tenantId, id, now }: { readonly tenantId: string; readonly id: string; readonly now: Date },
): Promise<{ readonly formerCarrier: string | null } | undefined> {
  const { rows } = await db.query<{ carrier: string | null }>({
    name: "replay-dead-letter",
    text: `WITH dead AS (
        SELECT day, id, carrier FROM deliveries
        WHERE day = $1 AND id = $2 AND tenant_id = $3 AND state = 'DEAD_LETTERED' AND expires_at > $4 FOR UPDATE
      ), queued AS (
        UPDATE deliveries d SET state = 'QUEUED', cycle = d.cycle + 1, epoch = d.epoch + 1, carrier = NULL,
          claimed_at = NULL, attempt_count = 0, cycle_started_at = NULL, next_attempt_at = NULL, reason = NULL,
          dead_lettered_at = NULL, expires_at = NULL
        FROM dead WHERE d.day = dead.day AND d.id = dead.id RETURNING dead.carrier
      )
      SELECT carrier, pg_notify('${OUTBOX_CHANNEL}', '1') FROM queued`,
    values: [idDay(id), id, tenantId, now],
  });
  return rows[0] === undefined ? undefined : { formerCarrier: rows[0].carrier };
}
