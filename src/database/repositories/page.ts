/** Pages of lists: by id, and of tables partitioned by day. */
import { idDay } from "#domain/ids.ts";
import { raw, sql, type Statement } from "../sql.ts";

/** One page of a list by id, newest first: rows with `id < before`, and one more than `limit`. */
export interface RowPage {
  readonly limit: number;
  /** `null` for the first page. */
  readonly before: string | null;
}

/** Limit of tenants' data per page, in bytes. A single larger row is still returned. */
const PAGE_BYTES = 1_048_576;

/**
 * Rows that a page reads at most by an index that knows only some of its filters, about 15 ms. Such a page may be empty,
 * and yet have a successor.
 */
export const READ_MAX = 5_000;

/** Rows of a page, and the id after which the next page begins; null if the list has ended. */
export interface BoundedRows<Row> {
  readonly rows: readonly Row[];
  readonly next: string | null;
}

/**
 * Returns the rows of a page with at most {@link PAGE_BYTES} of data, but at least one.
 *
 * @param page the rows without this limit
 * @param keyOf returns the key after which the next page begins; by default the id
 */
export function withinPage<Row extends { readonly id: string }>(
  page: BoundedRows<Row>,
  bytesOf: (row: Row) => number,
  keyOf: (row: Row) => string = ({ id }) => id,
): BoundedRows<Row> {
  let bytes = 0;
  const cut = page.rows.findIndex((row, index) => {
    bytes += bytesOf(row);
    return index > 0 && bytes > PAGE_BYTES;
  });
  const last = page.rows[cut - 1];
  return last === undefined ? page : { rows: page.rows.slice(0, cut), next: keyOf(last) };
}

/** Position from which a list by day and id continues: after an id of that day, or without an id after the whole day. */
export interface Onward {
  /** YYYY-MM-DD, UTC. */
  readonly day: string;
  readonly id?: string;
}

/**
 * Reads a page of a list over daily partitions: first the rest of the cursor's day, then the following days if needed.
 * The single condition `day <= $1 AND (day, id) < ($1, $2)` is planned for all partitions, and PostgreSQL 18 then scans
 * the whole day to find the start.
 *
 * @param read must return at most `limit` rows
 */
export async function readOnward<Row>(
  after: string | undefined,
  limit: number,
  read: (from: Onward | undefined, limit: number) => Promise<Row[]>,
): Promise<Row[]> {
  if (after === undefined) {
    return await read(undefined, limit);
  }
  const day = idDay(after);
  const rows = await read({ day, id: after }, limit);
  return rows.length < limit ? [...rows, ...(await read({ day }, limit - rows.length))] : rows;
}

/** Rows of a list over daily partitions that one index finds in their order. */
export interface ListPart {
  readonly where: Statement;
  /** Whether the condition covers all filters. The part otherwise reads {@link READ_MAX} rows, and compares each. */
  readonly exact: boolean;
  /** Whether the index has no days: ids alone have the same order. */
  readonly byId?: boolean;
}

/** Returns the condition on the columns `day` and `id` of rows at a place. */
export function atPlace(place: Onward | undefined): Statement {
  if (place === undefined) {
    return sql`true`;
  }
  const { day, id } = place;
  return id === undefined ? sql`day < ${day}` : sql`day = ${day} AND id < ${id}`;
}

/** A time span: the earliest instant, inclusive, and the latest one, exclusive. */
interface TimeSpan {
  readonly from?: Date | undefined;
  readonly to?: Date | undefined;
}

/** Returns the conditions on rows of `alias` that each index serves: the tenant, and the days of the time span. */
export function withinDays(alias: string, tenantId: string, { from, to }: TimeSpan): Statement {
  const own = raw(alias);
  const conditions = [sql`${own}.tenant_id = ${tenantId}`];
  if (from !== undefined) {
    conditions.push(sql`${own}.day >= ${from.toISOString().slice(0, 10)}`);
  }
  if (to !== undefined) {
    conditions.push(sql`${own}.day <= ${to.toISOString().slice(0, 10)}`);
  }
  return conditions.reduce((all, condition) => sql`${all} AND ${condition}`);
}

/** Reads a newest-first list by `day` and `id`, a bounded number of rows at a time, whatever its filters. */
export interface BoundedReader<Row> {
  /** Returns at most `limit` matching rows of a place. */
  readonly rows: (place: Onward | undefined, limit: number) => Promise<readonly Row[]>;
  /** Returns the id up to which a place was read if parts were cut off there; null if all of them ended. */
  readonly readTo: (place: Onward | undefined) => Promise<string | null>;
  /** Whether the list has several parts. Older rows of one then follow rows that another has not shown. */
  readonly hasParts: boolean;
}

/**
 * Reads a page of a list, at most `limit` rows. The page may have fewer, and still a successor.
 *
 * @param after the id after which the page begins, if it is not the first one
 */
export async function readBounded<Row extends { readonly id: string }>(
  reader: BoundedReader<Row>,
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<BoundedRows<Row>> {
  const rows: Row[] = [];
  const places =
    after === undefined ? [undefined] : [{ day: idDay(after), id: after }, { day: idDay(after) }];
  for (const place of places) {
    const most = limit + 1 - rows.length;
    const found = await reader.rows(place, most);
    const next = reader.hasParts || found.length < most ? await reader.readTo(place) : null;
    rows.push(...(next === null ? found : found.filter(({ id }) => id >= next)));
    if (rows.length > limit) {
      return { rows: rows.slice(0, limit), next: rows[limit - 1]?.id ?? null };
    }
    if (next !== null) {
      return { rows, next };
    }
  }
  return { rows, next: null };
}
