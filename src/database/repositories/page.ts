/** Pages of lists: by id, and of tables partitioned by day. */
import { idDay } from "../../domain/ids.ts";

/** One page of a list by id, newest first: rows with `id < before`, and one more than `limit`. */
export interface RowPage {
  readonly limit: number;
  /** `null` for the first page. */
  readonly before: string | null;
}

/** Limit of tenants' data per page, in bytes. A single larger row is still returned. */
const PAGE_BYTES = 1_048_576;

/** Rows of a page, and whether more follow. */
export interface BoundedRows<Row> {
  readonly rows: readonly Row[];
  readonly more: boolean;
}

/**
 * Returns the rows of a page: at most `limit`, and at most {@link PAGE_BYTES} of data, but at least one.
 *
 * @param rows the rows, one more than `limit` if others follow
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
