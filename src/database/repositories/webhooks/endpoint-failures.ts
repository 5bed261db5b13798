/** Failing endpoints: when their failures began, and what clears them. */
import type { Queryable } from "#database/pool.ts";
import type { Row } from "#database/rows.ts";
import { HELD_TENANTS } from "../tenants.ts";

export interface NotedFailure {
  readonly endpointId: string;
  readonly since: Date;
  /** When a delivery was exhausted; null if none was. */
  readonly exhaustedAt: Date | null;
}

/** Clears the failures of endpoints that answered 2xx at these instants. */
export async function forgetFailures(
  db: Queryable,
  reached: readonly { readonly endpointId: string; readonly at: Date }[],
): Promise<void> {
  await db.query({
    name: "forget-endpoint-failures",
    text: `DELETE FROM endpoint_failures f USING unnest($1::text[], $2::timestamptz[]) AS r(endpoint_id, at)
      WHERE f.endpoint_id = r.endpoint_id AND f.failing_since <= r.at`,
    values: [reached.map(({ endpointId }) => endpointId), reached.map(({ at }) => at)],
  });
}

/** Stores each endpoint's first failure, and whether a delivery was exhausted. Known facts cost no write. */
export async function noteFailures(db: Queryable, failed: readonly NotedFailure[]): Promise<void> {
  await db.query({
    name: "note-endpoint-failures",
    text: `INSERT INTO endpoint_failures AS f (endpoint_id, failing_since, exhausted_at)
      SELECT n.endpoint_id, n.since, n.exhausted_at
      FROM unnest($1::text[], $2::timestamptz[], $3::timestamptz[]) AS n(endpoint_id, since, exhausted_at)
      JOIN endpoints e ON e.id = n.endpoint_id AND e.state = 'ACTIVE'
      WHERE NOT EXISTS (SELECT FROM endpoint_failures k
        WHERE k.endpoint_id = n.endpoint_id AND (k.exhausted_at IS NOT NULL OR n.exhausted_at IS NULL))
      ORDER BY n.endpoint_id
      ON CONFLICT (endpoint_id) DO UPDATE SET exhausted_at = coalesce(f.exhausted_at, excluded.exhausted_at)`,
    values: [
      failed.map(({ endpointId }) => endpointId),
      failed.map(({ since }) => since),
      failed.map(({ exhaustedAt }) => exhaustedAt),
    ],
  });
}

export interface FailingEndpoint {
  readonly id: string;
  readonly tenantId: string;
  readonly failingSince: Date;
}

/** Returns active endpoints that have failed since before an instant and have exhausted a delivery. */
export async function findFailing(
  db: Queryable,
  { before, limit }: { readonly before: Date; readonly limit: number },
): Promise<FailingEndpoint[]> {
  const { rows } = await db.query<{ id: string; tenant_id: string; failing_since: Date }>({
    name: "find-failing-endpoints",
    text: `SELECT e.id, e.tenant_id, f.failing_since FROM endpoint_failures f JOIN endpoints e ON e.id = f.endpoint_id
      WHERE f.exhausted_at IS NOT NULL AND f.failing_since <= $1 AND e.state = 'ACTIVE'
        AND e.tenant_id NOT IN ${HELD_TENANTS}
      ORDER BY f.failing_since LIMIT $2`,
    values: [before, limit],
  });
  return rows.map((row) => ({ id: row.id, tenantId: row.tenant_id, failingSince: row.failing_since }));
}

/** Clears an endpoint's failures after they ended or were handled. */
export async function forgetFailing(db: Queryable, endpointId: string): Promise<void> {
  await db.query({
    name: "forget-failing-endpoint",
    text: "DELETE FROM endpoint_failures WHERE endpoint_id = $1",
    values: [endpointId],
  });
}

/**
 * Whether an endpoint accepted a delivery at or after an instant. It scans all accepted deliveries, so it is only for
 * the rare endpoint that seems to have failed for days.
 */
export async function hasDelivered(
  db: Queryable,
  { id, tenant_id: tenantId }: Row<"endpoints", "id" | "tenant_id">,
  since: Date,
): Promise<boolean> {
  const { rows } = await db.query<{ delivered: boolean }>({
    name: "has-delivered",
    text: `SELECT EXISTS (SELECT FROM deliveries WHERE tenant_id = $1 AND endpoint_id = $2 AND state = 'DELIVERED'
        AND delivered_at >= $3) AS delivered`,
    values: [tenantId, id, since],
  });
  return rows[0]?.delivered === true;
}
