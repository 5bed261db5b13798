/** Pages of lists: by id, and of tables with a partition a day. */
import { idDay } from "../../domain/ids.ts";

/** One page of a list by id, newest first: rows with `id < before`, and one more than the page holds. */
export interface RowPage {
  readonly limit: number;
  /** `null` for the first page. */
  readonly before: string | null;
}

/** A list of rows that carry tenants' data holds so many bytes of it, and one row however large. */
const PAGE_BYTES = 1_048_576;

/** Rows of a page, and whether others follow. */
export interface BoundedRows<Row> {
  readonly rows: readonly Row[];
  readonly more: boolean;
}

/**
 * The rows of a page: at most `limit`, and no more than {@link PAGE_BYTES} of data, but one at least.
 *
 * @param rows one more than `limit` where others follow
 */
export function withinPage<Row>(
  rows: readonly Row[],
  limit: number,
  bytesOf: (row: Row) => number,
): BoundedRows<Row> {
  let bytes = 0;
  const cut = rows.findIndex((row, index) => {
    bytes += bytesOf(row);
    return index > 0 && bytes > PAGE_BYTES;
  });
  const most = Math.min(limit, cut === -1 ? rows.length : cut);
  return { rows: rows.slice(0, most), more: rows.length > most };
}

/** Where a list by day and id goes on: behind an id of that day, or without one behind the whole day. */
export interface Onward {
  /** YYYY-MM-DD, UTC. */
  readonly day: string;
  readonly id?: string;
}

/**
 * Reads a page of a list over partitions of a day each: what is left of the cursor's day first, then the days behind it if
 * they are needed. Asked at once, as `day <= $1 AND (day, id) < ($1, $2)`, it is planned for all partitions, and
 * PostgreSQL 18 looks through the whole day for where to begin.
 *
 * @param read must not return more than `limit` rows
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
