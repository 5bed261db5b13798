/** Reads the compliance log. */
import type { Queryable } from "../pool.ts";
import { sql } from "../sql.ts";

export interface ComplianceEntryRow {
  readonly idx: number;
  /** Canonical JSON, as it was hashed. */
  readonly entry: Buffer;
  readonly leaf_hash: Buffer;
}

export interface EntryFilter {
  readonly tenantId?: string | undefined;
  readonly type?: string | undefined;
  readonly actor?: string | undefined;
  /** Earliest time, inclusive. */
  readonly from?: Date | undefined;
  /** Latest time, exclusive. */
  readonly to?: Date | undefined;
}

export interface EntryPage {
  readonly limit: number;
  /** The index below which the page starts; null for the first page. */
  readonly before: number | null;
}

/**
 * Returns entries with an index below `before`, newest first, and one more than `limit` (role signet_audit or
 * signet_api).
 */
export async function listEntries(
  db: Queryable,
  filter: EntryFilter,
  { limit, before }: EntryPage,
): Promise<ComplianceEntryRow[]> {
  const { tenantId = null, type = null, actor = null, from = null, to = null } = filter;
  const { rows } = await db.query<ComplianceEntryRow>(
    sql`SELECT idx, entry, leaf_hash FROM clog
      WHERE log_id = 1
        AND (${before}::bigint IS NULL OR idx < ${before})
        AND (${tenantId}::text IS NULL OR tenant_id = ${tenantId})
        AND (${type}::text IS NULL OR type = ${type})
        AND (${actor}::text IS NULL OR actor = ${actor})
        AND (${from}::timestamptz IS NULL OR at >= ${from})
        AND (${to}::timestamptz IS NULL OR at < ${to})
      ORDER BY idx DESC LIMIT ${limit + 1}`,
  );
  return rows;
}

/** Returns one entry; undefined also if it is not that of the given tenant (role signet_audit or signet_api). */
export async function findEntry(
  db: Queryable,
  index: number,
  tenantId: string | undefined,
): Promise<ComplianceEntryRow | undefined> {
  const { rows } = await db.query<ComplianceEntryRow>(
    `SELECT idx, entry, leaf_hash FROM clog
      WHERE log_id = 1 AND idx = $1 AND ($2::text IS NULL OR tenant_id = $2)`,
    [index, tenantId ?? null],
  );
  return rows[0];
}
