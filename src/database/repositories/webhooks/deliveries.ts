/** A tenant's deliveries: lists, attempts, dead letters, replay. */
import type { AttemptError, DeadLetterReason } from "#domain/delivery.ts";
import { idAt, idDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import type { Row } from "#database/rows.ts";
import { raw, sql, type Statement } from "#database/sql.ts";
import { deadLettersOf, type DeliveryFilter, partsOf, selectDeliveries } from "./delivery-filter.ts";
import { type EndpointAgainst, endpointAgainst } from "../endpoints/endpoints.ts";
import { notifyOutbox } from "./events.ts";
import { atPlace, type BoundedRows, type Onward, READ_MAX, readBounded } from "../page.ts";

/** A delivery without its parts that only the engine reads. */
export interface Delivery extends Row<
  "deliveries",
  | "id"
  | "event_id"
  | "event_type"
  | "endpoint_id"
  | "state"
  | "reason"
  | "cycle"
  | "attempt_count"
  | "next_attempt_at"
  | "last_status"
  | "created_at"
  | "delivered_at"
  | "dead_lettered_at"
  | "expires_at"
> {
  readonly last_error: AttemptError | null;
  /** The column `carrier`. */
  readonly workflow_id: string | null;
}

/** Columns of a delivery. A dead letter counts as EXPIRED after its week, even if that is not stored. */
function columns(now: Date): Statement {
  return sql`d.id, d.event_id, d.event_type, d.endpoint_id,
    CASE WHEN d.state = 'DEAD_LETTERED' AND d.expires_at <= ${now} THEN 'EXPIRED' ELSE d.state END AS state,
    d.reason, d.cycle, d.attempt_count, d.next_attempt_at,
    d.last_status, d.last_error, d.carrier AS workflow_id, d.created_at,
    d.delivered_at, d.dead_lettered_at, d.expires_at`;
}

export async function findDelivery(
  db: Queryable,
  { tenantId, id, now }: { readonly tenantId: string; readonly id: string; readonly now: Date },
): Promise<Delivery | undefined> {
  const { rows } = await db.query<Delivery>({
    name: "find-delivery",
    ...sql`SELECT ${columns(now)} FROM deliveries d WHERE d.day = ${idDay(id)} AND d.id = ${id} AND d.tenant_id = ${tenantId}`,
  });
  return rows[0];
}

export interface DeliveryPage {
  readonly tenantId: string;
  readonly filter: DeliveryFilter;
  /** Only deliveries after this one in the list, which is newest first. */
  readonly before: string | undefined;
  readonly limit: number;
  readonly now: Date;
}

const [NEWEST, NEWEST_BY_ID] = ["ORDER BY day DESC, id DESC", "ORDER BY id DESC"];

/** Returns a page of a tenant's deliveries, newest first. */
export async function listDeliveries(db: Queryable, page: DeliveryPage): Promise<BoundedRows<Delivery>> {
  const { tenantId, filter, now, before, limit } = page;
  const selection = { tenantId, filter, now };
  const parts = partsOf(selection);
  const reader = {
    hasParts: parts.length > 1,
    rows: async (place: Onward | undefined, most: number) => {
      const read = parts.map(
        ({ where, exact, byId = false }) =>
          sql`(SELECT d.* FROM deliveries d WHERE ${atPlace(place)} AND ${where} ${raw(byId ? NEWEST_BY_ID : NEWEST)} LIMIT ${exact ? most : READ_MAX})`,
      );
      const { rows } = await db.query<Delivery>(
        sql`SELECT ${columns(now)} FROM (${read.reduce((all, part) => sql`${all} UNION ALL ${part}`)}) d
          WHERE ${selectDeliveries(selection)} ${raw(NEWEST)} LIMIT ${most}`,
      );
      return rows;
    },
    readTo: async (place: Onward | undefined) => {
      const inexact = parts.filter(({ exact }) => !exact);
      if (inexact.length === 0) {
        return null;
      }
      const lasts = inexact.map(
        ({ where, byId = false }) =>
          sql`(SELECT id FROM deliveries d WHERE ${atPlace(place)} AND ${where} ${raw(byId ? NEWEST_BY_ID : NEWEST)} OFFSET ${READ_MAX - 1} LIMIT 1)`,
      );
      const { rows } = await db.query<{ last: string | null }>(
        sql`SELECT max(id) AS last FROM (${lasts.reduce((all, part) => sql`${all} UNION ALL ${part}`)}) lasts`,
      );
      return rows[0]?.last ?? null;
    },
  };
  // No delivery is created before the instant in its id.
  const after = before ?? (filter.to === undefined ? undefined : idAt("delivery", filter.to.getTime() + 1));
  return await readBounded(reader, { after, limit });
}

/** A delivery in the dead-letter queue. */
export interface DeadDelivery extends Delivery {
  readonly reason: DeadLetterReason | null;
}

export function isDead(delivery: Delivery): delivery is DeadDelivery {
  return delivery.state === "DEAD_LETTERED";
}

/** A dead letter with its place in the queue, which is in the order of death. */
export interface QueuedLetter extends DeadDelivery {
  /** Microseconds since 1970 at which it died, and its id. */
  readonly place: string;
}

/** Form of a place in the queue. */
export const QUEUE_PLACE = /^\d{1,17}\/dlv_[0-9a-hjkmnp-tv-z]{24}$/;

const PLACE = "(extract(epoch FROM d.dead_lettered_at) * 1000000)::bigint || '/' || d.id";
const NEWEST_DEATH = raw("ORDER BY d.dead_lettered_at DESC, d.id DESC");

/** Returns a page of a tenant's dead letters, the newest death first. `before` is the place of the last one shown. */
export async function listDeadLetters(
  db: Queryable,
  { tenantId, filter: given, before, limit, now }: DeliveryPage,
): Promise<BoundedRows<QueuedLetter>> {
  const filter = { ...given, state: "DEAD_LETTERED" as const };
  const [micros = "", id = ""] = before?.split("/") ?? [];
  const place =
    before === undefined
      ? sql`true`
      : sql`(d.dead_lettered_at, d.id) < (timestamptz 'epoch' + ${micros}::bigint * interval '1 microsecond', ${id})`;
  const read = sql`SELECT d.* FROM deliveries d
    WHERE ${deadLettersOf({ tenantId, filter, now })} AND ${place} ${NEWEST_DEATH}`;
  const { rows } = await db.query<QueuedLetter>(
    sql`SELECT ${columns(now)}, ${raw(PLACE)} AS place FROM (${read} LIMIT ${READ_MAX}) d
      WHERE ${selectDeliveries({ tenantId, filter, now })} ${NEWEST_DEATH} LIMIT ${limit + 1}`,
  );
  if (rows.length > limit) {
    return { rows: rows.slice(0, limit), next: rows[limit - 1]?.place ?? null };
  }
  const last = await db.query<{ place: string }>(
    sql`SELECT ${raw(PLACE)} AS place FROM (${read} OFFSET ${READ_MAX - 1} LIMIT 1) d`,
  );
  return { rows, next: last.rows[0]?.place ?? null };
}

/** Returns the dead letter that died first; undefined if the queue is empty. */
export async function findOldestLetter(
  db: Queryable,
  {
    tenantId,
    endpointId,
    now,
  }: { readonly tenantId: string; readonly endpointId: string | undefined; readonly now: Date },
): Promise<Pick<Delivery, "dead_lettered_at" | "expires_at"> | undefined> {
  // What has expired leaves the queue within seconds, so few rows are skipped.
  const { rows } = await db.query<Pick<Delivery, "dead_lettered_at" | "expires_at">>(
    sql`SELECT d.dead_lettered_at, d.expires_at FROM (
        SELECT * FROM deliveries d WHERE ${deadLettersOf({ tenantId, filter: { endpointId }, now })}
        ORDER BY d.dead_lettered_at, d.id LIMIT ${READ_MAX}
      ) d WHERE d.expires_at > ${now} ORDER BY d.dead_lettered_at, d.id LIMIT 1`,
  );
  return rows[0];
}

/**
 * An attempt. Its duration is null while the request is under way. `response` is sealed beside the event's content,
 * `response_body` is not sealed, for events from before contents were sealed.
 */
export interface StoredAttempt extends Row<
  "attempts",
  "id" | "cycle" | "attempt" | "started_at" | "duration_ms" | "status" | "response_body" | "response"
> {
  readonly error: AttemptError | null;
  /** Whether a resend began its cycle. */
  readonly resent: boolean;
}

/** A page of a delivery's attempts: those after an attempt of a cycle, at most `limit`. */
export interface AttemptPage {
  readonly after: { readonly cycle: number; readonly attempt: number };
  readonly limit: number;
}

/** Returns attempts of a delivery, in their order. */
export async function listAttempts(
  db: Queryable,
  { tenantId, deliveryId }: { readonly tenantId: string; readonly deliveryId: string },
  { after, limit }: AttemptPage,
): Promise<StoredAttempt[]> {
  const { rows } = await db.query<StoredAttempt>({
    name: "list-attempts",
    // The attempt that delivers at once is in the delivery's row. Its lease may have got a row at the same time.
    text: `WITH delivered AS MATERIALIZED (
        SELECT 'att_' || substr(id, 5) AS id, 1 AS cycle, 1 AS attempt, cycle_started_at AS started_at,
          first_duration_ms AS duration_ms, last_status AS status, NULL AS error, NULL AS response_body,
          first_response AS response
        FROM deliveries WHERE day = $1 AND id = $2 AND tenant_id = $3 AND first_duration_ms IS NOT NULL
      )
      SELECT id, cycle, attempt, started_at, duration_ms, status, error,
        response_body, response,
        coalesce((SELECT resent_cycles @> a.cycle FROM deliveries WHERE day = $1 AND id = $2 AND tenant_id = $3), false) AS resent
      FROM (
        SELECT * FROM delivered
        UNION ALL
        SELECT id, cycle, attempt, started_at, duration_ms, status, error, response_body, response FROM attempts
        WHERE day = $1 AND delivery_id = $2 AND tenant_id = $3 AND NOT EXISTS (SELECT FROM delivered)
      ) a
      WHERE (cycle, attempt) > ($4, $5) ORDER BY cycle, attempt LIMIT $6`,
    values: [idDay(deliveryId), deliveryId, tenantId, after.cycle, after.attempt, limit],
  });
  return rows;
}

/** Assignments that return a delivery `d` to the outbox with a new cycle. */
export const NEW_CYCLE = `state = 'QUEUED', cycle = d.cycle + 1, epoch = d.epoch + 1, carrier = NULL,
          claimed_at = NULL, attempt_count = 0, cycle_started_at = NULL, next_attempt_at = NULL, reason = NULL,
          dead_lettered_at = NULL, expires_at = NULL`;

/**
 * Further assignments for a delivery `d` that had ended. `delivered_at` belongs to the last cycle, as `state` does. The
 * attempts keep what earlier cycles came to.
 */
export const RESENT = `delivered_at = NULL, first_duration_ms = NULL, first_response = NULL,
          resent_cycles = coalesce(d.resent_cycles, '{}') + int4multirange(int4range(d.cycle + 1, d.cycle + 2))`;

/** Columns of a delivery `d` that {@link moveFirstAttempt} reads. */
export const FIRST_ATTEMPT =
  "d.tenant_id, d.cycle_started_at, d.last_status, d.first_duration_ms, d.first_response";

/**
 * Returns SQL that moves the first attempts out of the rows of `resent` into rows of their own. The id stays that of
 * {@link listAttempts}. An attempt may already have the row of its lease.
 */
export function moveFirstAttempt(resent: string): string {
  return `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status, response)
        SELECT day, id, 1, 1, 'att_' || substr(id, 5), tenant_id, cycle_started_at, first_duration_ms, last_status, first_response
        FROM ${resent} WHERE first_duration_ms IS NOT NULL
        ON CONFLICT (day, delivery_id, cycle, attempt) DO UPDATE
          SET id = excluded.id, started_at = excluded.started_at, duration_ms = excluded.duration_ms,
            status = excluded.status, response = excluded.response, lease_until = NULL
          WHERE attempts.duration_ms IS NULL`;
}

/** Condition of a delivery `d` whose event is kept with its content. An erasure meanwhile cancels the next attempt. */
export const HAS_CONTENT = `EXISTS (
  SELECT FROM events v WHERE v.day = d.day AND v.id = d.event_id AND v.content_erased_at IS NULL OFFSET 0
)`;

/** Condition of a delivery `d` whose endpoint takes a new cycle. Otherwise it would be a dead letter at once. */
const TAKES_CYCLE = `${endpointAgainst(false)} IS NULL`;

/** Returns what stands against a new cycle of a delivery at its endpoint; null if nothing does. */
export async function findAgainstCycle(
  db: Queryable,
  { tenantId, id }: Pick<DeliveryAt, "tenantId" | "id">,
): Promise<EndpointAgainst | null> {
  const { rows } = await db.query<{ against: EndpointAgainst | null }>({
    name: "find-against-cycle",
    text: `SELECT ${endpointAgainst(false)} AS against FROM deliveries d WHERE d.day = $1 AND d.id = $2 AND d.tenant_id = $3`,
    values: [idDay(id), id, tenantId],
  });
  return rows[0]?.against ?? null;
}

/**
 * Returns a delivered, cancelled or expired delivery to the outbox with a new cycle and notifies the workers. Its former
 * carrier has ended, or finds out at its next step.
 *
 * @returns false if it has not ended, for instance at a second resend, or cannot be sent
 */
export async function resendDelivery(db: Queryable, { tenantId, id, now }: DeliveryAt): Promise<boolean> {
  const { rowCount } = await db.query({
    name: "resend-delivery",
    text: `WITH ended AS MATERIALIZED (
        SELECT d.day, d.id, ${FIRST_ATTEMPT} FROM deliveries d
        WHERE d.day = $1 AND d.id = $2 AND d.tenant_id = $3
          AND (d.state IN ('DELIVERED', 'CANCELLED', 'EXPIRED') OR (d.state = 'DEAD_LETTERED' AND d.expires_at <= $4))
          AND ${TAKES_CYCLE} AND ${HAS_CONTENT} FOR UPDATE OF d
      ), moved AS (
        ${moveFirstAttempt("ended")}
      ), queued AS (
        UPDATE deliveries d SET ${NEW_CYCLE}, ${RESENT}
        FROM ended WHERE d.day = ended.day AND d.id = ended.id RETURNING d.id
      )
      SELECT ${notifyOutbox("1", "$3::text")} FROM queued`,
    values: [idDay(id), id, tenantId, now],
  });
  return rowCount === 1;
}

/**
 * Returns a dead letter to the outbox with a new cycle and notifies the workers. Returns the former carrier, which must
 * release the delivery. A second replay does nothing.
 */
export async function replayDeadLetter(
  db: Queryable,
  { tenantId, id, now }: DeliveryAt,
): Promise<{ readonly formerCarrier: string | null } | undefined> {
  const { rows } = await db.query<{ carrier: string | null }>({
    name: "replay-dead-letter",
    text: `WITH dead AS (
        SELECT d.day, d.id, d.carrier FROM deliveries d
        WHERE d.day = $1 AND d.id = $2 AND d.tenant_id = $3 AND d.state = 'DEAD_LETTERED' AND d.expires_at > $4
          AND ${TAKES_CYCLE} FOR UPDATE
      ), queued AS (
        UPDATE deliveries d SET ${NEW_CYCLE}
        FROM dead WHERE d.day = dead.day AND d.id = dead.id RETURNING dead.carrier
      )
      SELECT carrier, ${notifyOutbox("1", "$3::text")} FROM queued`,
    values: [idDay(id), id, tenantId, now],
  });
  return rows[0] === undefined ? undefined : { formerCarrier: rows[0].carrier };
}

/** A tenant's delivery that is to be changed, and the current time. */
export interface DeliveryAt {
  readonly tenantId: string;
  readonly id: string;
  readonly now: Date;
}

/** Makes the next attempt of a delivery due now. Returns its carrier, or undefined if it has no further attempt. */
export async function makeAttemptDue(
  db: Queryable,
  { tenantId, id, now }: DeliveryAt,
): Promise<{ readonly carrier: string | null } | undefined> {
  const { rows } = await db.query<{ carrier: string | null }>({
    name: "make-attempt-due",
    text: `UPDATE deliveries SET next_attempt_at = CASE WHEN state = 'RETRYING' THEN least(next_attempt_at, $4) END
      WHERE day = $1 AND id = $2 AND tenant_id = $3 AND state IN ('QUEUED', 'RETRYING')
      RETURNING CASE WHEN state = 'RETRYING' THEN carrier END AS carrier, ${notifyOutbox("1", "$3::text")}`,
    values: [idDay(id), id, tenantId, now],
  });
  return rows[0];
}

/** Cancels a delivery that is open or in the dead-letter queue. Returns its carrier, or undefined if it is neither. */
export async function cancelDelivery(
  db: Queryable,
  { tenantId, id, now }: DeliveryAt,
): Promise<{ readonly carrier: string | null } | undefined> {
  const { rows } = await db.query<{ carrier: string | null }>({
    name: "cancel-delivery",
    text: `UPDATE deliveries SET state = 'CANCELLED', next_attempt_at = NULL, expires_at = NULL
      WHERE day = $1 AND id = $2 AND tenant_id = $3
        AND (state IN ('QUEUED', 'RETRYING') OR (state = 'DEAD_LETTERED' AND expires_at > $4))
      RETURNING carrier`,
    values: [idDay(id), id, tenantId, now],
  });
  return rows[0];
}
