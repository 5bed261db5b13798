/** Attempts: the data for sending, and the outcomes. */
import type { AttemptError, DeliveryReason, DeliveryState } from "#domain/delivery.ts";
import type { EndpointState } from "#domain/endpoint-state.ts";
import { RESULTS_KEPT } from "#domain/endpoint-health.ts";
import { DAY_MS, firstDay, hourStart, idDay, idTimeMs, utcDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import type { Row } from "#database/rows.ts";
import { lateral, raw, type Statement, sql } from "#database/sql.ts";
import type { StoredContent } from "./events.ts";
import {
  type EndpointTarget,
  joinSecrets,
  requestColumns,
  type SecretColumns,
  type StoredSecrets,
  withSecrets,
} from "../stored-secrets.ts";

/** A delivery to be attempted by a carrier. */
export interface AttemptKey {
  readonly deliveryId: string;
  readonly carrier: string;
  readonly epoch: number;
  readonly attempt: number;
}

/** A delivery with all data for its request, and the attempt's row, if any. */
export interface LoadedDelivery
  extends
    StoredContent,
    EndpointTarget,
    Row<"deliveries", "cycle" | "next_attempt_at" | "event_id" | "event_type" | "claimed_by">,
    Row<"events", "occurred_at" | "source_id">,
    Row<"endpoints", "disabled_reason" | "rate_limit">,
    Row<"attempts", "lease_until" | "duration_ms" | "status"> {
  /** Size of the sealed content; null without content. Large contents are loaded separately (`loadContents`). */
  readonly content_bytes: number | null;
  readonly delivery_id: string;
  readonly state: DeliveryState;
  /** Whether the service published it, not its tenant. */
  readonly own: boolean;
  readonly endpoint_state: EndpointState;
  /** When the endpoint's verification was requested; null if it is not being verified. */
  readonly verifying_since: Date | null;
  readonly error: AttemptError | null;
  /** `traceparent` of the publishing request; undefined if traces are off. */
  readonly traceparent: string | null | undefined;
}

/** Contents up to this size, in bytes, are loaded with their deliveries. */
export const SMALL_CONTENT_BYTES = 16_384;

/** The columns of {@link loadedColumns}, as PostgreSQL returns them. */
export type LoadedColumns = Omit<LoadedDelivery, keyof StoredSecrets> & SecretColumns;

/** The columns of a {@link LoadedDelivery} that its endpoint `p`, tenant `t` and secrets decide. */
export const TARGET_COLUMNS = `p.state AS endpoint_state, p.rate_limit, p.disabled_reason,
        CASE WHEN p.state = 'PENDING' AND p.verification_state <> 'EXHAUSTED' THEN p.verification_requested_at END
          AS verifying_since,
        ${requestColumns("p")}`;

/**
 * Returns the columns of a {@link LoadedDelivery}: of the delivery `d`, its event `e`, endpoint `p`, tenant `t`, secrets
 * and attempt `a`.
 */
export function loadedColumns(traced: boolean): string {
  return `d.id AS delivery_id, d.tenant_id, d.state, d.cycle, d.next_attempt_at, d.event_id, d.event_type, e.occurred_at,
        e.source_id, e.own IS TRUE AS own, e.data,
        CASE WHEN octet_length(e.content) <= ${SMALL_CONTENT_BYTES} THEN e.content END AS content,
        octet_length(e.content) AS content_bytes, d.endpoint_id, ${TARGET_COLUMNS}, d.claimed_by,
        a.lease_until, a.duration_ms, a.error, a.status${traced ? ", e.traceparent" : ""}`;
}

/** The newest day of all ids so far. */
let newestDay = "";

/** Returns a day of {@link utcDay} as SQL. */
export function dateLiteral(day: string): string {
  return `DATE '${day}'`;
}

/**
 * Returns the first day of ids for conditions beside joins by day ({@link firstDay}), and the end of the statement's
 * name. If all ids are of the latest two days, as most are, the day stands in the text. PostgreSQL then plans few
 * partitions, ten times faster. It plans again whenever a partition gets new statistics.
 */
function sinceDay(ids: readonly string[]): { readonly day: Statement; readonly name: string } {
  const first = firstDay(ids);
  const last = idDay(ids.reduce((greatest, id) => (id > greatest ? id : greatest), ids[0] ?? ""));
  newestDay = last > newestDay ? last : newestDay;
  const isRecent = first >= utcDay(Date.parse(newestDay) - DAY_MS);
  return isRecent
    ? { day: raw(dateLiteral(first)), name: `-since-${first}` }
    : { day: sql`${first}`, name: "" };
}

/**
 * Loads deliveries for an attempt, in the order of the keys. The fence (carrier and epoch) returns only rows with the
 * caller's carrier and epoch; the others are undefined.
 *
 * @param traced whether to load the event's trace, too
 */
export async function loadForAttempt(
  db: Queryable,
  keys: readonly AttemptKey[],
  traced = false,
): Promise<(LoadedDelivery | undefined)[]> {
  const ids = keys.map((key) => key.deliveryId);
  const { day, name } = sinceDay(ids);
  const { rows } = await db.query<
    LoadedColumns & { readonly ord: number; readonly first_duration_ms: number | null }
  >({
    name: `load-for${traced ? "-traced" : ""}-attempt${name}`,
    ...sql`SELECT m.ord::int, ${raw(loadedColumns(traced))},
        CASE WHEN d.cycle = 1 AND m.attempt = 1 THEN d.first_duration_ms END AS first_duration_ms
      FROM unnest(
          ${ids.map(idDay)}::date[],
          ${ids}::text[],
          ${keys.map((key) => key.carrier)}::text[],
          ${keys.map((key) => key.epoch)}::int[],
          ${keys.map((key) => key.attempt)}::int[])
        WITH ORDINALITY AS m(day, id, carrier, epoch, attempt, ord)
      -- Without OFFSET, the planner could read a whole day that it believes to be small, for each delivery.
      CROSS JOIN LATERAL (
        SELECT * FROM deliveries d WHERE d.day = m.day AND d.id = m.id AND d.carrier = m.carrier AND d.epoch = m.epoch
          AND d.day >= ${day} OFFSET 0
      ) d
      CROSS JOIN LATERAL (
        SELECT * FROM events e WHERE e.day = d.day AND e.id = d.event_id AND e.day >= ${day} OFFSET 0
      ) e
      CROSS JOIN ${raw(lateral("endpoints", "p", "id = d.endpoint_id"))}
      CROSS JOIN ${raw(lateral("tenants", "t", "id = d.tenant_id"))}
      ${raw(joinSecrets("d.endpoint_id"))}
      LEFT JOIN LATERAL (
        SELECT * FROM attempts a WHERE a.day = d.day AND a.delivery_id = d.id AND a.cycle = d.cycle
          AND a.attempt = m.attempt AND a.day >= ${day} OFFSET 0
      ) a ON true`,
  });
  const loaded: (LoadedDelivery | undefined)[] = keys.map(() => undefined);
  for (const { ord, first_duration_ms, ...row } of rows) {
    const delivered = first_duration_ms === null ? {} : { duration_ms: first_duration_ms, error: null };
    loaded[ord - 1] = { ...withSecrets(row), ...delivered };
  }
  return loaded;
}

/** A request without an answer. It is not sent again before the lease has ended. */
export interface InFlightAttempt {
  readonly attemptId: string;
  readonly deliveryId: string;
  readonly tenantId: string;
  readonly cycle: number;
  readonly attempt: number;
  readonly startedAt: Date;
  readonly leaseUntil: Date;
}

/**
 * Stores the leases, except for attempts with a known outcome. Concurrent runs may request the same lease, but one
 * statement may touch a row only once.
 */
export async function recordInFlight(db: Queryable, attempts: readonly InFlightAttempt[]): Promise<void> {
  await db.query({
    name: "record-in-flight",
    ...sql`INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, lease_until)
      SELECT DISTINCT ON (day, delivery_id, cycle, attempt) *
      FROM unnest(
          ${attempts.map((row) => idDay(row.deliveryId))}::date[],
          ${attempts.map((row) => row.deliveryId)}::text[],
          ${attempts.map((row) => row.cycle)}::int[],
          ${attempts.map((row) => row.attempt)}::int[],
          ${attempts.map((row) => row.attemptId)}::text[],
          ${attempts.map((row) => row.tenantId)}::text[],
          ${attempts.map((row) => row.startedAt)}::timestamptz[],
          ${attempts.map((row) => row.leaseUntil)}::timestamptz[])
        AS lease(day, delivery_id, cycle, attempt, id, tenant_id, started_at, lease_until)
      ORDER BY day, delivery_id, cycle, attempt, lease_until DESC
      ON CONFLICT (day, delivery_id, cycle, attempt) DO UPDATE
        SET started_at = excluded.started_at, lease_until = excluded.lease_until
        WHERE attempts.duration_ms IS NULL AND attempts.lease_until < excluded.lease_until`,
  });
}

/** The outcome of one attempt, and its effect on the delivery. */
export interface AttemptOutcome {
  readonly attemptId: string;
  readonly deliveryId: string;
  readonly tenantId: string;
  readonly carrier: string;
  readonly epoch: number;
  readonly cycle: number;
  readonly attempt: number;
  readonly startedAt: Date;
  readonly durationMs: number;
  readonly status: number | null;
  readonly error: AttemptError | null;
  /** Sealed beside the event's content, or plain if that is not sealed. */
  readonly responseBody: Buffer | string | null;
  readonly nextState: "DELIVERED" | "RETRYING" | "DEAD_LETTERED";
  readonly nextAttemptAt: Date | null;
  readonly endedAt: Date;
  /** When the dead letter expires. */
  readonly expiresAt: Date | null;
  /** Whether a continuing delivery leaves its carrier and waits for a list of its endpoint. */
  readonly leaves: boolean;
}

/** Maximum size of a response beside its delivery, in bytes. Lists read those rows. */
const FIRST_RESPONSE_MAX = 512;

/** Whether an outcome can be stored without a row of its own: it delivers at the first attempt. */
function deliversFirst({ nextState, attempt, cycle, responseBody }: AttemptOutcome): boolean {
  return (
    nextState === "DELIVERED" &&
    attempt === 1 &&
    cycle === 1 &&
    typeof responseBody !== "string" &&
    (responseBody?.length ?? 0) <= FIRST_RESPONSE_MAX
  );
}

/**
 * Stores outcomes of {@link deliversFirst} in the deliveries' rows. Skips those whose attempt has a row, and those that
 * are not queued.
 *
 * @returns the deliveries whose outcome was stored
 */
async function recordDelivered(
  db: Queryable,
  outcomes: readonly AttemptOutcome[],
): Promise<ReadonlySet<string>> {
  const ids = outcomes.map((row) => row.deliveryId);
  const { day: first, name } = sinceDay(ids);
  const { rows } = await db.query<{ id: string }>({
    name: `record-delivered${name}`,
    ...sql`WITH done AS (
      UPDATE deliveries d SET state = 'DELIVERED', attempt_count = 1, cycle_started_at = o.started_at,
        last_status = o.status, last_error = NULL, next_attempt_at = NULL, delivered_at = o.ended_at,
        first_duration_ms = o.duration_ms, first_response = o.response
      FROM unnest(
        ${ids.map(idDay)}::date[],
        ${ids}::text[],
        ${outcomes.map((row) => row.startedAt)}::timestamptz[],
        ${outcomes.map((row) => row.durationMs)}::int[],
        ${outcomes.map((row) => row.status)}::int[],
        ${outcomes.map((row) => row.endedAt)}::timestamptz[],
        ${outcomes.map((row) => row.responseBody)}::bytea[],
        ${ids.map((id) => new Date(hourStart(idTimeMs(id))))}::timestamptz[])
      AS o(day, id, started_at, duration_ms, status, ended_at, response, hour)
      WHERE d.day = o.day AND d.id = o.id AND d.day >= ${first} AND d.cycle = 1 AND d.state = 'QUEUED'
        -- Without OFFSET here and in the other statements, the planner could read the whole day instead.
        AND NOT EXISTS (SELECT FROM attempts a
          WHERE a.day = o.day AND a.day >= ${first} AND a.delivery_id = o.id AND a.cycle = 1 AND a.attempt = 1 OFFSET 0)
      RETURNING d.id, d.tenant_id, d.endpoint_id, d.event_type, o.hour, o.ended_at
    ), counted AS (
      INSERT INTO delivery_changes
        (tenant_id, endpoint_id, event_type, hour, attempt_hour, delivered, attempts, results, ended_at)
      SELECT tenant_id, endpoint_id, event_type, hour, date_trunc('hour', ended_at, 'UTC'), count(*), count(*),
        repeat('1', least(count(*), ${raw(String(RESULTS_KEPT))})::int), max(ended_at)
      FROM done GROUP BY 1, 2, 3, 4, 5
    )
    SELECT id FROM done`,
  });
  return new Set(rows.map(({ id }) => id));
}

/**
 * Returns SQL that appends the counts of the attempts in `written`, whose outcomes are in `outcome`. An attempt whose
 * delivery PostgreSQL has lost in a fail-over is not counted: its endpoint and event type are lost, too.
 */
function countedAttempts(first: Statement): Statement {
  return sql`INSERT INTO delivery_changes
    (tenant_id, endpoint_id, event_type, attempt_hour, attempts, failed, results, ended_at, failed_at, status, error)
  SELECT d.tenant_id, d.endpoint_id, d.event_type, date_trunc('hour', o.ended_at, 'UTC'), count(*), count(o.error),
    right(string_agg(CASE WHEN o.error IS NULL THEN '1' ELSE '0' END, '' ORDER BY o.ended_at), ${raw(String(RESULTS_KEPT))}),
    max(o.ended_at), max(o.ended_at) FILTER (WHERE o.error IS NOT NULL),
    (array_agg(o.status ORDER BY o.ended_at DESC) FILTER (WHERE o.error IS NOT NULL))[1],
    (array_agg(o.error ORDER BY o.ended_at DESC) FILTER (WHERE o.error IS NOT NULL))[1]
  FROM outcome o JOIN written w ON w.day = o.day AND w.delivery_id = o.delivery_id AND w.cycle = o.cycle
    AND w.attempt = o.attempt
  CROSS JOIN LATERAL (SELECT d.tenant_id, d.endpoint_id, d.event_type FROM deliveries d
    WHERE d.day = o.day AND d.day >= ${first} AND d.id = o.delivery_id OFFSET 0) d
  GROUP BY 1, 2, 3, 4`;
}

function outcomesStatement(outcomes: readonly AttemptOutcome[], first: Statement): Statement {
  const ids = outcomes.map((row) => row.deliveryId);
  return sql`WITH outcome AS (
    SELECT * FROM unnest(
      ${ids.map(idDay)}::date[],
      ${ids}::text[],
      ${outcomes.map((row) => row.cycle)}::int[],
      ${outcomes.map((row) => row.attempt)}::int[],
      ${outcomes.map((row) => row.attemptId)}::text[],
      ${outcomes.map((row) => row.tenantId)}::text[],
      ${outcomes.map((row) => row.carrier)}::text[],
      ${outcomes.map((row) => row.epoch)}::int[],
      ${outcomes.map((row) => row.startedAt)}::timestamptz[],
      ${outcomes.map((row) => row.durationMs)}::int[],
      ${outcomes.map((row) => row.status)}::int[],
      ${outcomes.map((row) => row.error)}::text[],
      ${outcomes.map((row) => (typeof row.responseBody === "string" ? row.responseBody : null))}::text[],
      ${outcomes.map((row) => row.nextState)}::text[],
      ${outcomes.map((row) => row.nextAttemptAt)}::timestamptz[],
      ${outcomes.map((row) => row.endedAt)}::timestamptz[],
      ${outcomes.map((row) => row.expiresAt)}::timestamptz[],
      ${outcomes.map((row) => row.leaves)}::boolean[],
      ${outcomes.map((row) => (typeof row.responseBody === "string" ? null : row.responseBody))}::bytea[])
    AS o(day, delivery_id, cycle, attempt, id, tenant_id, carrier, epoch,
      started_at, duration_ms, status, error, response_body, next_state, next_attempt_at, ended_at, expires_at, leaves, response)
  ), written AS (
    INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status, error, response_body, response)
    SELECT day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status, error,
      -- An unsealed response must not outlive the erasure of its event.
      CASE WHEN response_body IS NOT NULL AND EXISTS (
        SELECT FROM deliveries d WHERE d.day = outcome.day AND d.day >= ${first}
          AND d.id = outcome.delivery_id AND d.reason = 'content_erased' OFFSET 0
      ) THEN NULL ELSE response_body END,
      response
    FROM outcome
    WHERE NOT (cycle = 1 AND attempt = 1 AND EXISTS (
      SELECT FROM deliveries d
      WHERE d.day = outcome.day AND d.day >= ${first}
        AND d.id = outcome.delivery_id AND d.first_duration_ms IS NOT NULL OFFSET 0))
    -- The order of recordInFlight, which may run at the same time: two statements must not deadlock.
    ORDER BY day, delivery_id, cycle, attempt
    ON CONFLICT (day, delivery_id, cycle, attempt) DO UPDATE
      SET started_at = excluded.started_at, duration_ms = excluded.duration_ms, status = excluded.status,
        error = excluded.error, response_body = excluded.response_body, response = excluded.response,
        lease_until = NULL
      WHERE attempts.duration_ms IS NULL
    RETURNING day, delivery_id, cycle, attempt
  ), followed AS (
    UPDATE deliveries d SET
      state = o.next_state,
      carrier = CASE WHEN o.leaves THEN NULL ELSE d.carrier END,
      epoch = d.epoch + o.leaves::int,
      attempt_count = o.attempt,
      cycle_started_at = CASE WHEN o.attempt = 1 THEN o.started_at ELSE d.cycle_started_at END,
      last_status = o.status,
      last_error = o.error,
      next_attempt_at = o.next_attempt_at,
      delivered_at = CASE WHEN o.next_state = 'DELIVERED' THEN o.ended_at END,
      dead_lettered_at = CASE WHEN o.next_state = 'DEAD_LETTERED' THEN o.ended_at END,
      expires_at = o.expires_at,
      reason = CASE WHEN o.next_state = 'DEAD_LETTERED' THEN 'attempts_exhausted' END
    FROM outcome o JOIN written w ON w.day = o.day AND w.delivery_id = o.delivery_id AND w.cycle = o.cycle
      AND w.attempt = o.attempt
    WHERE d.day = o.day AND d.day >= ${first} AND d.id = o.delivery_id
      AND d.state IN ('QUEUED', 'RETRYING')
      AND ((d.carrier = o.carrier AND d.epoch = o.epoch) OR (d.cycle = o.cycle AND o.next_state <> 'RETRYING'))
  ), counted AS (${countedAttempts(first)})
  SELECT delivery_id, cycle, attempt FROM written`;
}

/** Stores attempts in rows of their own, and the resulting states. */
async function recordWithRows(
  db: Queryable,
  outcomes: readonly AttemptOutcome[],
): Promise<ReadonlySet<string>> {
  const { day, name } = sinceDay(outcomes.map((row) => row.deliveryId));
  const { rows } = await db.query<{ delivery_id: string; cycle: number; attempt: number }>({
    name: `record-outcomes${name}`,
    ...outcomesStatement(outcomes, day),
  });
  return new Set(rows.map((row) => `${row.delivery_id}/${row.cycle}/${row.attempt}`));
}

/**
 * Stores attempts with the resulting states, each in one statement. The first outcome of an attempt stays. A delivery
 * that was cancelled or replayed meanwhile keeps its new state. One that was moved, or whose claim was lost, continues
 * with its new carrier, unless this attempt ended it: delivered is delivered, regardless of the carrier.
 *
 * @returns for each outcome whether it was stored; false if the attempt already had one
 */
export async function recordOutcomes(db: Queryable, outcomes: readonly AttemptOutcome[]): Promise<boolean[]> {
  const first = outcomes.filter(deliversFirst);
  const delivered = first.length === 0 ? new Set<string>() : await recordDelivered(db, first);
  const isDelivered = (row: AttemptOutcome): boolean => deliversFirst(row) && delivered.has(row.deliveryId);
  const others = outcomes.filter((row) => !isDelivered(row));
  const written = others.length === 0 ? new Set<string>() : await recordWithRows(db, others);
  return outcomes.map(
    (row) => isDelivered(row) || written.has(`${row.deliveryId}/${row.cycle}/${row.attempt}`),
  );
}

/** A delivery that its endpoint no longer accepts. */
export interface ParkedDelivery {
  readonly deliveryId: string;
  readonly carrier: string;
  readonly epoch: number;
  readonly now: Date;
  readonly expiresAt: Date;
  readonly to: "DEAD_LETTERED" | "CANCELLED";
  readonly reason: DeliveryReason | null;
  /** Whether it leaves its carrier, for one of dead letters. */
  readonly leaves: boolean;
}

/** Takes a delivery out of the schedule without an attempt. Returns true if it was open and still the carrier's. */
export async function parkDelivery(db: Queryable, parked: ParkedDelivery): Promise<boolean> {
  const { rowCount } = await db.query({
    name: "park-delivery",
    ...sql`UPDATE deliveries SET state = ${parked.to}, reason = ${parked.reason}, next_attempt_at = NULL,
        dead_lettered_at = CASE WHEN ${parked.to} = 'DEAD_LETTERED' THEN ${parked.now}::timestamptz END,
        expires_at = CASE WHEN ${parked.to} = 'DEAD_LETTERED' THEN ${parked.expiresAt}::timestamptz END,
        carrier = CASE WHEN NOT ${parked.leaves} THEN carrier END, epoch = epoch + ${parked.leaves}::boolean::int
      WHERE day = ${idDay(parked.deliveryId)} AND id = ${parked.deliveryId} AND carrier = ${parked.carrier} AND epoch = ${parked.epoch} AND state IN ('QUEUED', 'RETRYING')`,
  });
  return rowCount === 1;
}

/** Postpones the next attempt. Does nothing if the delivery is no longer the carrier's. */
export async function deferDelivery(
  db: Queryable,
  { deliveryId, carrier, epoch }: AttemptKey,
  nextAttemptAt: Date,
): Promise<void> {
  await db.query({
    name: "defer-delivery",
    // No index of what waits fits the condition of the state, so the key finds the row (decision 40).
    text: `UPDATE deliveries SET next_attempt_at = $5
      WHERE day = $1 AND id = $2 AND carrier = $3 AND epoch = $4 AND state || '' = 'RETRYING'`,
    values: [idDay(deliveryId), deliveryId, carrier, epoch, nextAttemptAt],
  });
}

/**
 * Postpones deliveries that wait for their place at a rate-limited endpoint, so that they do not count as overdue or
 * not started before that. Skips those that are no longer the carrier's.
 */
export async function deferForReservations(
  db: Queryable,
  waiting: readonly { readonly key: AttemptKey; readonly until: Date }[],
): Promise<void> {
  await db.query({
    name: "defer-for-places",
    ...sql`UPDATE deliveries d SET
        claimed_at = CASE WHEN d.state = 'QUEUED' THEN m.until ELSE d.claimed_at END,
        next_attempt_at = CASE WHEN d.state = 'RETRYING' THEN m.until ELSE d.next_attempt_at END
      FROM unnest(
          ${waiting.map(({ key }) => idDay(key.deliveryId))}::date[],
          ${waiting.map(({ key }) => key.deliveryId)}::text[],
          ${waiting.map(({ key }) => key.carrier)}::text[],
          ${waiting.map(({ key }) => key.epoch)}::int[],
          ${waiting.map(({ until }) => until)}::timestamptz[]) AS m(day, id, carrier, epoch, until)
      WHERE d.day = m.day AND d.id = m.id AND d.carrier = m.carrier AND d.epoch = m.epoch
        AND d.state IN ('QUEUED', 'RETRYING')`,
  });
}
