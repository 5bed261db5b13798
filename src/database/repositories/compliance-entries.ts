/** Reads the compliance log, and appends to it. */
import type { Queryable } from "../pool.ts";
import { sql, type Statement } from "../sql.ts";
import { sendBeforeCommit, sendWithCommit } from "../transaction.ts";
import { READ_MAX } from "./page.ts";

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
 * How far an entry's time may differ from its place in the log, in milliseconds: much more than the clocks of processes
 * that still append.
 */
const OUT_OF_ORDER_MS = 3_600_000;

/** Returns the condition that an index serves in the order of the log. */
function servedBy({ tenantId, type, actor }: EntryFilter): Statement {
  if (tenantId !== undefined) {
    return sql`tenant_id = ${tenantId}`;
  }
  if (actor !== undefined) {
    return sql`actor = ${actor}`;
  }
  return type === undefined ? sql`true` : sql`type = ${type}`;
}

/** Returns the last index before an instant among the entries of an index, by bisection: one lookup for each bit. */
async function placeOf(db: Queryable, served: Statement, at: Date): Promise<number> {
  const { rows } = await db.query<{ place: number }>(
    sql`WITH RECURSIVE halves AS (
        SELECT -1::bigint AS low, (SELECT coalesce(max(idx), -1) + 1 FROM clog WHERE log_id = 1 AND ${served}) AS high
        UNION ALL
        SELECT CASE WHEN early THEN middle ELSE low END, CASE WHEN early THEN high ELSE middle END
        FROM (
          SELECT low, high, (low + high) / 2 AS middle, coalesce((
            SELECT c.at FROM clog c WHERE log_id = 1 AND ${served} AND idx <= (low + high) / 2 ORDER BY idx DESC LIMIT 1
          ) < ${at}, true) AS early
          FROM halves WHERE high - low > 1
        ) halved
      )
      SELECT low AS place FROM halves WHERE high - low <= 1`,
  );
  return rows[0]?.place ?? -1;
}

/** Entries of a page, and the index below which the next page starts; null if the list has ended. */
export interface EntryRows {
  readonly rows: readonly ComplianceEntryRow[];
  readonly next: number | null;
}

/** Returns the indexes between which the entries of a time span are, by the index that serves `first`. */
async function placesOf(db: Queryable, { from, to }: EntryFilter, first: Statement): Promise<Statement> {
  const low = from === undefined ? -1 : await placeOf(db, first, new Date(from.getTime() - OUT_OF_ORDER_MS));
  const high = to === undefined ? null : await placeOf(db, first, new Date(to.getTime() + OUT_OF_ORDER_MS));
  return sql`idx > ${low} AND (${high}::bigint IS NULL OR idx <= ${high})`;
}

/**
 * Returns a page of entries with an index below `before`, newest first (role signet_audit or signet_api). By an index
 * that knows only some filters, it reads at most {@link READ_MAX} entries. It may then be empty, and yet have a successor.
 */
export async function listEntries(
  db: Queryable,
  filter: EntryFilter,
  { limit, before }: EntryPage,
): Promise<EntryRows> {
  const { tenantId, type = null, actor = null, from = null, to = null } = filter;
  const first = servedBy(filter);
  const within = await placesOf(db, filter, first);
  const given = [tenantId, filter.actor, filter.type, filter.from, filter.to];
  const isExact =
    given.filter((value) => value !== undefined).length <= (from === null && to === null ? 1 : 0);
  const read = sql`SELECT idx, entry, leaf_hash, tenant_id, actor, type, at FROM clog
    WHERE log_id = 1 AND ${first} AND ${within} AND (${before}::bigint IS NULL OR idx < ${before})
    ORDER BY idx DESC LIMIT ${isExact ? limit + 1 : READ_MAX}`;
  const { rows } = await db.query<ComplianceEntryRow>(
    sql`SELECT idx, entry, leaf_hash FROM (${read}) c
      WHERE (${type}::text IS NULL OR type = ${type}) AND (${actor}::text IS NULL OR actor = ${actor}) AND (${from}::timestamptz IS NULL OR at >= ${from}) AND (${to}::timestamptz IS NULL OR at < ${to})
      ORDER BY idx DESC LIMIT ${limit + 1}`,
  );
  const last = rows[limit - 1];
  if (rows.length > limit && last !== undefined) {
    return { rows: rows.slice(0, limit), next: last.idx };
  }
  if (isExact) {
    return { rows, next: null };
  }
  const { rows: cut } = await db.query<{ idx: number }>(
    sql`SELECT idx FROM (${read}) c ORDER BY idx DESC OFFSET ${READ_MAX - 1}`,
  );
  return { rows, next: cut[0]?.idx ?? null };
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
