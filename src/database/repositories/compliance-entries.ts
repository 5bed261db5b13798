/** Reads the compliance log. */
import type { Queryable } from "../pool.ts";

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
  { tenantId, type, actor, from, to }: EntryFilter,
  { limit, before }: EntryPage,
): Promise<ComplianceEntryRow[]> {
  const { rows } = await db.query<ComplianceEntryRow>(
    `SELECT idx, entry, leaf_hash FROM clog
      WHERE log_id = 1
        AND ($1::bigint IS NULL OR idx < $1)
        AND ($2::text IS NULL OR tenant_id = $2)
        AND ($3::text IS NULL OR type = $3)
        AND ($4::text IS NULL OR actor = $4)
        AND ($5::timestamptz IS NULL OR at >= $5)
        AND ($6::timestamptz IS NULL OR at < $6)
      ORDER BY idx DESC LIMIT $7`,
    [before, tenantId ?? null, type ?? null, actor ?? null, from ?? null, to ?? null, limit + 1],
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
