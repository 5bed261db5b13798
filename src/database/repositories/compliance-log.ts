/** Appends to the compliance log: one statement assigns the index, hashes and writes (migration 0005). */
import type { Queryable } from "../pool.ts";

export interface AppendedRow {
  readonly place: number;
  readonly leaf: Buffer;
}

/** Canonical JSON of an entry without its index, which is known once the log is locked. */
export interface EntryBytes {
  readonly beforeIndex: Buffer;
  readonly afterIndex: Buffer;
}

/** Appends an entry and holds the head of the log until the transaction ends. */
export async function appendEntryBytes(
  db: Queryable,
  { beforeIndex, afterIndex }: EntryBytes,
): Promise<AppendedRow> {
  const { rows } = await db.query<AppendedRow>({
    name: "append-compliance-entry",
    text: "SELECT place, leaf FROM append_compliance_entry($1, $2)",
    values: [beforeIndex, afterIndex],
  });
  return rows[0] as AppendedRow;
}
