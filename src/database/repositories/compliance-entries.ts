/** Reads the compliance log, and appends to it. */
import type { Queryable } from "../pool.ts";
import { sql } from "../sql.ts";
import { sendBeforeCommit, sendWithCommit } from "../transaction.ts";

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

export interface AppendedRow {
  readonly place: number;
  readonly leaf: Buffer;
}

/** Canonical JSON of an entry without its index, which is known once the log is locked. */
export interface EntryBytes {
  readonly beforeIndex: Buffer;
  readonly afterIndex: Buffer;
}

/**
 * Appends an entry and holds the head of the log until the transaction ends. One statement assigns the index, hashes and
 * writes (migration 0005).
 */
export async function appendEntryBytes(
  db: Queryable,
  { beforeIndex, afterIndex }: EntryBytes,
): Promise<AppendedRow> {
  await sendBeforeCommit(db);
  const { rows } = await db.query<AppendedRow>({
    name: "append-compliance-entry",
    text: "SELECT place, leaf FROM append_compliance_entry($1, $2)",
    values: [beforeIndex, afterIndex],
  });
  return rows[0] as AppendedRow;
}

const literal = (bytes: Buffer): string => `decode('${bytes.toString("hex")}', 'hex')`;

/**
 * Appends an entry with the transaction's COMMIT, so that others wait for the head of the log no longer than the server
 * takes. At once on a connection whose transaction is not of {@link transaction}.
 */
export async function appendEntryWithCommit(db: Queryable, entry: EntryBytes): Promise<void> {
  const values = `${literal(entry.beforeIndex)}, ${literal(entry.afterIndex)}`;
  if (!sendWithCommit(db, `SELECT FROM append_compliance_entry(${values})`)) {
    await appendEntryBytes(db, entry);
  }
}

/** Appends entries in this order, otherwise as {@link appendEntryBytes}. */
export async function appendManyEntries(db: Queryable, entries: readonly EntryBytes[]): Promise<void> {
  await db.query(
    `SELECT count(*)
       FROM (SELECT * FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS e (before, after, n) ORDER BY n) AS ordered
      CROSS JOIN LATERAL append_compliance_entry(ordered.before, ordered.after)`,
    [entries.map(({ beforeIndex }) => beforeIndex), entries.map(({ afterIndex }) => afterIndex)],
  );
}
