/** Counts of dead letters, and the notices to tenants about them. */
import type { AttemptError, DeadLetterReason } from "#domain/delivery.ts";
import { OWN_EVENT_TYPES } from "#domain/own-event-types.ts";
import type { Queryable } from "#database/pool.ts";

/** Dead letters of one endpoint with the same cause. */
export interface DeadLetterGroup {
  readonly endpoint_id: string;
  readonly reason: DeadLetterReason;
  /** Null if no attempt was made. */
  readonly last_error: AttemptError | null;
  readonly count: number;
}

export interface GroupPage {
  readonly endpointId: string | undefined;
  /** Key of the last group before this page. */
  readonly after: readonly [endpointId: string, reason: string, lastError: string] | undefined;
  readonly limit: number;
}

/** The counts of the tenant $1, of the endpoint $2 if it is not null, and their unfolded changes. */
const LINES = `(
    SELECT endpoint_id, reason, last_error, letters AS n FROM dead_letter_counts
      WHERE tenant_id = $1 AND ($2::text IS NULL OR endpoint_id = $2)
    UNION ALL
    SELECT endpoint_id, reason, last_error, change FROM dead_letter_changes
      WHERE tenant_id = $1 AND ($2::text IS NULL OR endpoint_id = $2)
  ) lines`;

/**
 * Returns groups by endpoint, reason and class of failure, from the counts and the unfolded changes (role signet_api).
 */
export async function listGroups(
  db: Queryable,
  tenantId: string,
  { endpointId, after, limit }: GroupPage,
): Promise<DeadLetterGroup[]> {
  const { rows } = await db.query<{
    endpoint_id: string;
    reason: DeadLetterReason;
    last_error: AttemptError | "";
    n: number;
  }>({
    name: "list-dead-letter-groups",
    text: `SELECT endpoint_id, reason, last_error, sum(n)::int AS n FROM ${LINES}
      WHERE $3::text IS NULL OR (endpoint_id, reason, last_error) > ($3, $4, $5)
      GROUP BY 1, 2, 3 HAVING sum(n) > 0 ORDER BY 1, 2, 3 LIMIT $6`,
    values: [tenantId, endpointId ?? null, ...(after ?? [null, null, null]), limit],
  });
  return rows.map((row) => ({
    endpoint_id: row.endpoint_id,
    reason: row.reason,
    last_error: row.last_error === "" ? null : row.last_error,
    count: row.n,
  }));
}

/** Returns the number of dead letters, of all endpoints or of one (role signet_api). */
export async function countLetters(
  db: Queryable,
  tenantId: string,
  endpointId: string | undefined,
): Promise<number> {
  const { rows } = await db.query<{ n: number }>({
    name: "count-dead-letters",
    text: `SELECT coalesce(sum(n), 0)::int AS n FROM ${LINES}`,
    values: [tenantId, endpointId ?? null],
  });
  return rows[0]?.n ?? 0;
}

/** Maximum number of ids in a notice. */
const IDS_MAX = 100;

/**
 * Folds changes into the counts, and into the notices of the current minute (role signet_worker).
 *
 * @returns the number of changes
 */
export async function foldChanges(
  db: Queryable,
  { now, limit }: { readonly now: Date; readonly limit: number },
): Promise<number> {
  const { rows } = await db.query<{ n: number }>({
    name: "fold-dead-letter-changes",
    text: `WITH taken AS MATERIALIZED (
        DELETE FROM dead_letter_changes WHERE id = ANY (ARRAY(
          SELECT id FROM dead_letter_changes ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING *
      ), counted AS (
        INSERT INTO dead_letter_counts AS c (tenant_id, endpoint_id, reason, last_error, letters)
        SELECT tenant_id, endpoint_id, reason, last_error, sum(change) FROM taken
        GROUP BY 1, 2, 3, 4 HAVING sum(change) <> 0 ORDER BY 1, 2, 3, 4
        ON CONFLICT (tenant_id, endpoint_id, reason, last_error) DO UPDATE SET letters = c.letters + excluded.letters
      ), noticed AS (
        INSERT INTO dead_letter_notices AS n (kind, tenant_id, endpoint_id, bucket, letters, ids, due_at)
        SELECT 'dead_lettered', tenant_id, endpoint_id, date_trunc('minute', $1::timestamptz), count(*),
          (array_agg(delivery_id ORDER BY id))[1:${IDS_MAX}], date_trunc('minute', $1::timestamptz) + interval '65 s'
        FROM taken WHERE change = 1 AND event_type <> ALL ($3) GROUP BY tenant_id, endpoint_id ORDER BY endpoint_id
        ON CONFLICT (kind, endpoint_id, bucket) DO UPDATE
          SET letters = n.letters + excluded.letters, ids = (n.ids || excluded.ids)[1:${IDS_MAX}]
      )
      SELECT count(*) AS n FROM taken`,
    values: [now, limit, OWN_EVENT_TYPES],
  });
  return rows[0]?.n ?? 0;
}

export interface ExpiryWatch {
  readonly now: Date;
  /** Dead letters that expire before this instant are reported. */
  readonly until: Date;
}

/**
 * Creates notices of dead letters that expire before an instant, once each. Run in a transaction (role signet_worker).
 */
export async function noteExpiring(db: Queryable, { now, until }: ExpiryWatch): Promise<number> {
  const watched = await db.query<{ from: Date }>(
    `SELECT greatest(told_until, $1) AS from FROM dead_letter_watch WHERE told_until < $2 FOR UPDATE SKIP LOCKED`,
    [now, until],
  );
  const from = watched.rows[0]?.from;
  if (from === undefined) {
    return 0;
  }
  const { rowCount } = await db.query(
    // For a limit that it does not know, the planner follows an index that is in order.
    `INSERT INTO dead_letter_notices (kind, tenant_id, endpoint_id, bucket, letters, ids, due_at, expires_at)
      SELECT 'expiring', tenant_id, endpoint_id, $2, count(*), (array_agg(id ORDER BY expires_at, id))[1:${IDS_MAX}], $3, min(expires_at)
      FROM (
        SELECT * FROM deliveries WHERE state = 'DEAD_LETTERED' AND expires_at >= $1 AND expires_at < $2
          AND event_type <> ALL ($4) ORDER BY expires_at LIMIT (SELECT 2147483647)
      ) expiring
      GROUP BY tenant_id, endpoint_id ON CONFLICT DO NOTHING`,
    [from, until, now, OWN_EVENT_TYPES],
  );
  await db.query("UPDATE dead_letter_watch SET told_until = $1", [until]);
  return rowCount ?? 0;
}

export interface DeadLetterNotice {
  readonly kind: "dead_lettered" | "expiring";
  readonly tenant_id: string;
  readonly endpoint_id: string;
  readonly bucket: Date;
  readonly letters: number;
  readonly ids: readonly string[];
  /** When the first of them expires; null for new dead letters. */
  readonly expires_at: Date | null;
}

/** Takes due notices, in the transaction that publishes them (role signet_worker). */
export async function takeNotices(
  db: Queryable,
  { now, limit }: { readonly now: Date; readonly limit: number },
): Promise<DeadLetterNotice[]> {
  const { rows } = await db.query<DeadLetterNotice>({
    name: "take-dead-letter-notices",
    text: `DELETE FROM dead_letter_notices n USING (
        SELECT kind, endpoint_id, bucket FROM dead_letter_notices WHERE due_at <= $1
        ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
      ) due
      WHERE n.kind = due.kind AND n.endpoint_id = due.endpoint_id AND n.bucket = due.bucket
      RETURNING n.kind, n.tenant_id, n.endpoint_id, n.bucket, n.letters, n.ids,
        n.expires_at`,
    values: [now, limit],
  });
  return rows;
}
