/** Erases a tenant (docs/erasure.md): the immediate part, and the part of the worker. */
import type { Queryable } from "../pool.ts";
import type { CancelledDelivery } from "./webhooks/content-erasure.ts";

/** Replaces the tenant's name. */
const ERASED_NAME = "erased";

/**
 * Destroys a tenant's data key, and thus all sealed data, and its names, certificates and credentials. Its deliveries
 * wait until the worker has cancelled them (role signet_operator).
 */
export async function destroyTenant(db: Queryable, id: string, now: Date): Promise<void> {
  await db.query(
    `UPDATE tenants SET state = 'ERASED', name = $3, data_key = '', portal_brand = '{}', erased_at = $2, held_at = coalesce(held_at, $2)
      WHERE id = $1`,
    [id, now, ERASED_NAME],
  );
  // Names are unique within the tenant.
  await db.query("UPDATE roles SET name = id WHERE tenant_id = $1", [id]);
  await db.query(
    "UPDATE principals SET name = id, state = 'REVOKED', revoked_at = coalesce(revoked_at, $2) WHERE tenant_id = $1",
    [id, now],
  );
  await db.query(
    `UPDATE credentials SET state = 'REVOKED', revoked_at = coalesce(revoked_at, $2), name = NULL, san_uri = NULL,
        certificate_thumbprints = '{}', jwks = NULL
      WHERE tenant_id = $1`,
    [id, now],
  );
  await db.query("UPDATE secret_versions SET mac = '', wrapped = NULL WHERE tenant_id = $1", [id]);
}

export interface ErasedTenant {
  readonly id: string;
  readonly erasedAt: Date;
}

/** Returns tenants that may still have data. */
export async function listErasedTenants(db: Queryable, limit: number): Promise<ErasedTenant[]> {
  const { rows } = await db.query<{ id: string; erased_at: Date }>(
    `SELECT id, erased_at FROM tenants WHERE erased_at IS NOT NULL AND erasure_completed_at IS NULL ORDER BY id LIMIT $1`,
    [limit],
  );
  return rows.map((row) => ({ id: row.id, erasedAt: row.erased_at }));
}

/** Position in a tenant's rows. */
export interface ErasureCursor {
  readonly day: string;
  readonly id: string;
}

/** The position before every row. */
export const ERASURE_START: ErasureCursor = { day: "0001-01-01", id: "" };

export interface ErasurePage {
  readonly tenantId: string;
  readonly after: ErasureCursor;
  readonly limit: number;
  readonly now: Date;
}

export interface ErasedPage {
  /** Undefined if there were no more rows. */
  readonly last: ErasureCursor | undefined;
  /** Number of rows that still had content or were open. */
  readonly changed: number;
  readonly cancelled: readonly CancelledDelivery[];
}

/** Cancels the next open deliveries and dead letters, and erases the answers to all deliveries of the page. */
export async function eraseDeliveries(
  db: Queryable,
  { tenantId, after, limit }: ErasurePage,
): Promise<ErasedPage> {
  const { rows } = await db.query<
    ErasureCursor & { carrier: string | null; cancelled: boolean; answers: number }
  >({
    name: "erase-deliveries",
    // No index of what waits fits the conditions of the state, so the key finds each row (decision 40).
    text: `WITH page AS (
        SELECT day, id FROM deliveries WHERE tenant_id = $1 AND (day, id) > ($2::date, $3) ORDER BY day, id LIMIT $4
      ), cancelled AS (
        UPDATE deliveries d SET state = 'CANCELLED', reason = 'content_erased', next_attempt_at = NULL, expires_at = NULL
        FROM page p WHERE d.day = p.day AND d.id = p.id AND d.state || '' IN ('QUEUED', 'RETRYING', 'DEAD_LETTERED')
        RETURNING d.id, d.carrier
      ), answers AS (
        UPDATE attempts a SET response = NULL, response_body = NULL
        FROM page p WHERE a.day = p.day AND a.delivery_id = p.id
          AND (a.response IS NOT NULL OR a.response_body IS NOT NULL)
        RETURNING 1
      ), beside AS (
        UPDATE deliveries d SET first_response = NULL
        FROM page p WHERE d.day = p.day AND d.id = p.id AND d.state || '' = 'DELIVERED' AND d.first_response IS NOT NULL
        RETURNING 1
      )
      SELECT p.day, p.id, c.carrier, c.id IS NOT NULL AS cancelled,
        ((SELECT count(*) FROM answers) + (SELECT count(*) FROM beside))::int AS answers
      FROM page p LEFT JOIN cancelled c ON c.id = p.id ORDER BY p.day, p.id`,
    values: [tenantId, after.day, after.id, limit],
  });
  const cancelled = rows.filter((row) => row.cancelled);
  return { last: rows.at(-1), changed: cancelled.length + (rows[0]?.answers ?? 0), cancelled };
}

/** Erases the content of the next events. */
export async function eraseEvents(
  db: Queryable,
  { tenantId, after, limit, now }: ErasurePage,
): Promise<ErasedPage> {
  const { rows } = await db.query<ErasureCursor & { erased: number }>({
    name: "erase-events",
    text: `WITH page AS (
        SELECT day, id FROM events WHERE tenant_id = $1 AND (day, id) > ($2::date, $3) ORDER BY day, id LIMIT $4
      ), erased AS (
        UPDATE events e SET data = NULL, content = NULL, source_id = NULL,
          content_erased_at = coalesce(e.content_erased_at, $5)
        FROM page p WHERE e.day = p.day AND e.id = p.id
          AND (e.data IS NOT NULL OR e.content IS NOT NULL OR e.source_id IS NOT NULL)
        RETURNING 1
      )
      SELECT p.day, p.id, (SELECT count(*)::int FROM erased) AS erased FROM page p ORDER BY p.day, p.id`,
    values: [tenantId, after.day, after.id, limit, now],
  });
  return { last: rows.at(-1), changed: rows[0]?.erased ?? 0, cancelled: [] };
}

/** Returns the SQL that deletes up to $2 of a tenant's rows by the table's key. */
function deletion(table: string, key: string, tenant = "tenant_id"): string {
  return `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE ${tenant} = $1 LIMIT $2)`;
}

/** Tables whose rows are deleted, in this order. Add new tables of tenants here, unless their rows stay. */
const DELETIONS: Readonly<Record<string, string>> = {
  dead_letter_changes: deletion("dead_letter_changes", "id"),
  dead_letter_counts: deletion("dead_letter_counts", "tenant_id, endpoint_id, reason, last_error"),
  delivery_changes: deletion("delivery_changes", "ctid"),
  delivery_counts: deletion("delivery_counts", "tenant_id, hour, endpoint_id, event_type"),
  endpoint_activity: deletion("endpoint_activity", "endpoint_id"),
  dead_letter_notices: deletion("dead_letter_notices", "kind, endpoint_id, bucket"),
  replay_items: deletion("replay_items", "job_id, position"),
  replay_jobs: deletion("replay_jobs", "id"),
  endpoint_grades: deletion("endpoint_grades", "id"),
  portal_links: deletion("portal_links", "hash"),
  portal_sessions: deletion("portal_sessions", "hash"),
  endpoint_secrets: deletion("endpoint_secrets", "endpoint_id, version"),
  endpoint_authentications: deletion("endpoint_authentications", "endpoint_id"),
  endpoint_health: `DELETE FROM endpoint_health WHERE endpoint_id IN (
    SELECT h.endpoint_id FROM endpoint_health h JOIN endpoints e ON e.id = h.endpoint_id WHERE e.tenant_id = $1 LIMIT $2)`,
  revocation_notices: deletion("revocation_notices", "id"),
  ssf_polled_sets: deletion("ssf_polled_sets", "stream_id, id"),
  ssf_removed_subjects: deletion("ssf_removed_subjects", "stream_id, subject"),
  ssf_streams: deletion("ssf_streams", "id"),
  endpoints: deletion("endpoints", "id"),
  producer_secrets: deletion("producer_secrets", "credential_id, version"),
  client_assertions: deletion("client_assertions", "credential_id, jti_digest"),
  event_type_schemas: deletion("event_type_schemas", "tenant_id, name, version"),
  event_types: deletion("event_types", "tenant_id, name"),
  match_versions: deletion("match_versions", "ctid"),
  idempotency_keys: deletion("idempotency_keys", "tenant_id, route, key"),
  idempotent_answers: deletion("idempotent_answers", "owner_id, route, key_digest", "owner_id"),
};

/** Tables whose rows of a tenant are deleted. */
export const DELETED_TABLES: readonly string[] = Object.keys(DELETIONS);

/** Deletes up to `limit` rows of each of the tenant's small tables. Returns their number. */
export async function deleteTenantRows(db: Queryable, tenantId: string, limit: number): Promise<number> {
  // Only tombstones may be deleted.
  await db.query("UPDATE endpoints SET state = 'DELETED' WHERE tenant_id = $1 AND state <> 'DELETED'", [
    tenantId,
  ]);
  let deleted = 0;
  for (const text of Object.values(DELETIONS)) {
    deleted += (await db.query(text, [tenantId, limit])).rowCount ?? 0;
  }
  return deleted;
}

/** Records that nothing of the tenant is left. */
export async function completeErasure(db: Queryable, tenantId: string, now: Date): Promise<void> {
  await db.query("UPDATE tenants SET erasure_completed_at = $2 WHERE id = $1 AND state = 'ERASED'", [
    tenantId,
    now,
  ]);
}
