/**
 * The state of the whole deployment for operators (role signet_operator). Everything is read from the starts of indexes
 * and up to a limit, so the cost depends neither on the number of deliveries nor on that of endpoints.
 */
import { DAY_MS } from "#domain/ids.ts";
import type { Pool, Queryable } from "../pool.ts";
import { planTransactionInOrder, queryInOrder } from "../transaction.ts";
import { countUpTo, type OpenWork, openWorkColumns, type OpenWorkRow } from "./webhooks/census.ts";
import { waitingRetry } from "./webhooks/list-claims.ts";

/** Limit of the counts. This value means that or more. */
export const OVERVIEW_COUNTED_MAX = 10_000;
/** Maximum number of tenants whose lag is read, and of deliveries read per tenant. */
const LAG_TENANTS_MAX = 100;
const LAG_DELIVERIES_MAX = 100;
/** Maximum number of overdue retries read. */
const OVERDUE_MAX = 1_000;
/** Maximum rows of the lists of endpoints, certificates and workers. */
const LISTED_MAX = 20;
const WORKERS_MAX = 100;
/** Maximum number of endpoints with automatic rotation that are read, the oldest first. */
const ROTATING_MAX = 2_000;

export interface Queues extends OpenWork {
  /** Active endpoints whose health is failing. */
  readonly failing_endpoints: number;
  /** Endpoints that the service has disabled. */
  readonly stopped_endpoints: number;
  /** Endpoints that were slow or failing within the last minute. */
  readonly slow_endpoints: number;
  /** Endpoints whose secret should have rotated a day ago, of the 2,000 oldest with automatic rotation. */
  readonly overdue_endpoint_secrets: number;
}

/** Exported for the test of its plan. */
export const QUEUES = `SELECT ${openWorkColumns(OVERVIEW_COUNTED_MAX)},
  (SELECT count(*)::int FROM (
    SELECT FROM endpoint_activity a JOIN endpoints e ON e.id = a.endpoint_id AND e.state = 'ACTIVE'
    WHERE a.health = 'failing' LIMIT ${OVERVIEW_COUNTED_MAX}) c) AS failing_endpoints,
  ${countUpTo(OVERVIEW_COUNTED_MAX, "endpoints", "state = 'DISABLED' AND disabled_reason IN ('failing', 'gone')", "updated_at")} AS stopped_endpoints,
  ${countUpTo(OVERVIEW_COUNTED_MAX, "endpoint_health", "slow_until > $1", "slow_until")} AS slow_endpoints,
  (SELECT count(*)::int FROM (
    SELECT id, tenant_id, secret_rotation_days AS days FROM endpoints
    WHERE secret_rotation_days IS NOT NULL AND state <> 'DELETED' ORDER BY id LIMIT ${ROTATING_MAX}) e
    JOIN endpoint_secrets s ON s.endpoint_id = e.id AND s.state = 'CURRENT'
    JOIN tenants t ON t.id = e.tenant_id AND t.held_at IS NULL
    WHERE coalesce(s.current_at, s.created_at) <= $3::timestamptz - make_interval(days => e.days)) AS overdue_endpoint_secrets`;

/** Counts open work. */
export async function readQueues(pool: Pool, nowMs: number): Promise<Queues> {
  const rows = await queryInOrder<Omit<Queues, "retrying"> & OpenWorkRow>(pool, {
    name: "operator-queues",
    text: QUEUES,
    values: [new Date(nowMs), new Date(nowMs + DAY_MS), new Date(nowMs - DAY_MS)],
  });
  const { carried, uncarried, ...counts } = rows[0] as Omit<Queues, "retrying"> & OpenWorkRow;
  return { ...counts, retrying: Math.min(OVERVIEW_COUNTED_MAX, carried + uncarried) };
}

/** The deliveries of a tenant that are behind. Counts are limited. */
export interface TenantLag {
  readonly tenant_id: string;
  readonly tenant_name: string;
  readonly held_at: Date | null;
  /** Deliveries that no worker has claimed. */
  readonly waiting: number;
  readonly oldest_waiting: Date | null;
  /** Retries whose time has passed. */
  readonly overdue: number;
  readonly most_overdue: Date | null;
}

/** Returns SQL for overdue retries that wait for a list. */
function overdueRetries(timedOut: boolean): string {
  return `(SELECT tenant_id, next_attempt_at FROM (SELECT tenant_id, next_attempt_at FROM deliveries
        WHERE ${waitingRetry(timedOut)} ORDER BY tenant_id LIMIT ${OVERDUE_MAX}) r WHERE next_attempt_at < $1)`;
}

/** Exported for the test of its plan. */
export const LAG = `WITH RECURSIVE seen(tenant_id) AS (
    (SELECT tenant_id FROM deliveries WHERE carrier IS NULL AND state = 'QUEUED' ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.tenant_id FROM deliveries d WHERE d.carrier IS NULL AND d.state = 'QUEUED'
      AND d.tenant_id > seen.tenant_id ORDER BY d.tenant_id LIMIT 1)
    FROM seen WHERE seen.tenant_id IS NOT NULL
  ), behind AS (
    SELECT s.tenant_id, w.n AS waiting, w.oldest AS oldest_waiting, 0 AS overdue, NULL::timestamptz AS most_overdue
    FROM (SELECT tenant_id FROM seen WHERE tenant_id IS NOT NULL LIMIT ${LAG_TENANTS_MAX}) s
    CROSS JOIN LATERAL (
      SELECT count(*)::int AS n, min(created_at) AS oldest FROM (
        SELECT d.created_at FROM deliveries d WHERE d.carrier IS NULL AND d.state = 'QUEUED' AND d.tenant_id = s.tenant_id
        ORDER BY d.id LIMIT ${LAG_DELIVERIES_MAX}) mine
    ) w
    UNION ALL
    SELECT tenant_id, 0, NULL, count(*)::int, min(next_attempt_at) FROM (
      (SELECT tenant_id, next_attempt_at FROM deliveries WHERE carrier IS NOT NULL AND state = 'RETRYING'
        AND next_attempt_at < $1 ORDER BY next_attempt_at LIMIT ${OVERDUE_MAX})
      UNION ALL
      ${overdueRetries(false)}
      UNION ALL
      ${overdueRetries(true)}
    ) late GROUP BY tenant_id
  ), summed AS (
    SELECT tenant_id, sum(waiting)::int AS waiting, min(oldest_waiting) AS oldest_waiting, sum(overdue)::int AS overdue,
      min(most_overdue) AS most_overdue
    FROM behind GROUP BY tenant_id
  )
  SELECT t.id AS tenant_id, t.name AS tenant_name, t.held_at, s.waiting, s.oldest_waiting,
    s.overdue, s.most_overdue
  FROM summed s JOIN tenants t ON t.id = s.tenant_id
  ORDER BY t.held_at IS NOT NULL, least(s.oldest_waiting, s.most_overdue), t.id LIMIT ${LISTED_MAX}`;

/**
 * Returns the tenants that are furthest behind, held ones last.
 *
 * @param dueBefore instant before which a retry should have been made
 */
export async function readTenantLag(pool: Pool, dueBefore: Date): Promise<TenantLag[]> {
  return await queryInOrder<TenantLag>(pool, { name: "operator-lag", text: LAG, values: [dueBefore] });
}

/** Returns the lag of one tenant (role signet_api, in a read of the tenant); counts are 1,000 at most. */
export async function readLagOf(
  db: Queryable,
  tenantId: string,
  dueBefore: Date,
): Promise<Pick<TenantLag, "waiting" | "oldest_waiting" | "overdue" | "most_overdue">> {
  await planTransactionInOrder(db);
  const { rows } = await db.query<Pick<TenantLag, "waiting" | "oldest_waiting" | "overdue" | "most_overdue">>(
    {
      name: "operator-lag-of-tenant",
      text: `SELECT w.n AS waiting, w.oldest AS oldest_waiting, o.n AS overdue, o.oldest AS most_overdue
      FROM (SELECT count(*)::int AS n, min(created_at) AS oldest FROM (
          SELECT created_at FROM deliveries WHERE carrier IS NULL AND state = 'QUEUED' AND tenant_id = $1
          ORDER BY id LIMIT ${OVERDUE_MAX}) q) w,
        (SELECT count(*)::int AS n, min(next_attempt_at) AS oldest FROM (
          SELECT next_attempt_at FROM deliveries WHERE tenant_id = $1 AND state = 'RETRYING'
          ORDER BY day, id LIMIT ${OVERDUE_MAX}) q WHERE next_attempt_at < $2) o`,
      values: [tenantId, dueBefore],
    },
  );
  return rows[0] ?? { waiting: 0, oldest_waiting: null, overdue: 0, most_overdue: null };
}

export interface SeenWorker {
  readonly id: string;
  readonly seen_at: Date;
  /** Over its last seconds; 0 for a worker of an earlier version. */
  readonly attempts_per_second: number;
}

/** Returns the workers, those seen last first. Ended ones remain until their claims are handed back. */
export async function listWorkers(db: Queryable): Promise<SeenWorker[]> {
  const { rows } = await db.query<SeenWorker>({
    name: "operator-workers",
    text: `SELECT id, seen_at, attempts_per_second FROM workers ORDER BY seen_at DESC LIMIT ${WORKERS_MAX}`,
  });
  return rows;
}

export interface FailingEndpoint {
  readonly id: string;
  readonly tenant_id: string;
  readonly tenant_name: string;
  readonly state: string;
  readonly disabled_reason: string | null;
  /** When its health became failing, or when it was disabled. */
  readonly since: Date;
}

/** Returns endpoints that fail or that the service has disabled, those failing longest first. */
export async function listFailingEndpoints(db: Queryable): Promise<FailingEndpoint[]> {
  const { rows } = await db.query<FailingEndpoint>({
    name: "operator-failing-endpoints",
    text: `SELECT e.id, e.tenant_id, t.name AS tenant_name, e.state, e.disabled_reason, f.since
      FROM (
        (SELECT a.endpoint_id AS id, coalesce(a.health_since, e.updated_at) AS since FROM endpoint_activity a
          JOIN endpoints e ON e.id = a.endpoint_id AND e.state = 'ACTIVE'
          WHERE a.health = 'failing' ORDER BY a.health_since LIMIT ${LISTED_MAX})
        UNION ALL
        (SELECT id, updated_at FROM endpoints WHERE state = 'DISABLED' AND disabled_reason IN ('failing', 'gone')
          ORDER BY updated_at DESC LIMIT ${LISTED_MAX})
      ) f JOIN endpoints e ON e.id = f.id JOIN tenants t ON t.id = e.tenant_id
      WHERE e.state IN ('ACTIVE', 'DISABLED') ORDER BY e.state, f.since LIMIT ${LISTED_MAX}`,
  });
  return rows;
}

export interface EndingCertificate {
  readonly endpoint_id: string;
  readonly tenant_id: string;
  readonly tenant_name: string;
  /** RFC 3339. */
  readonly ends_at: string;
}

/** Returns the certificates of deliveries that end before an instant or have ended, first the one that ends first. */
export async function listEndingCertificates(db: Queryable, before: Date): Promise<EndingCertificate[]> {
  const { rows } = await db.query<EndingCertificate>({
    name: "operator-certificates",
    text: `SELECT e.id AS endpoint_id, e.tenant_id, t.name AS tenant_name,
        e.authentication::jsonb ->> 'not_after' AS ends_at
      FROM endpoints e JOIN tenants t ON t.id = e.tenant_id
      WHERE e.authentication LIKE '%"client_certificate"%' AND e.state <> 'DELETED'
        AND e.authentication::jsonb ->> 'not_after' < $1
      ORDER BY e.authentication::jsonb ->> 'not_after' LIMIT ${LISTED_MAX}`,
    values: [before.toISOString()],
  });
  return rows;
}
