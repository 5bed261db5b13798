/** Everything that a key-encryption key has wrapped, for `signet keys rewrap`. */
import type { Queryable } from "../pool.ts";

/** Tables whose rows hold an envelope of a key-encryption key. Add new ones here. */
export const WRAPPED_KINDS = ["tenants", "signing_keys"] as const;

export type WrappedKind = (typeof WRAPPED_KINDS)[number];

const COLUMNS = {
  tenants: { id: "id", envelope: "data_key" },
  signing_keys: { id: "kid", envelope: "private_key" },
} as const satisfies Record<WrappedKind, { id: string; envelope: string }>;

export interface WrappedKey {
  readonly id: string;
  readonly envelope: string;
}

/** Returns envelopes of keys other than `kekId`, by id, after `after`. Omits erased ones, which are empty. */
export async function listWrapped(
  db: Queryable,
  kind: WrappedKind,
  { kekId, after, limit }: { readonly kekId: string; readonly after: string; readonly limit: number },
): Promise<WrappedKey[]> {
  const { id, envelope } = COLUMNS[kind];
  const { rows } = await db.query<WrappedKey>(
    `SELECT ${id} AS id, ${envelope} AS envelope FROM ${kind}
      WHERE ${id} > $2 AND ${envelope} <> '' AND split_part(${envelope}, '.', 2) <> $1 ORDER BY ${id} LIMIT $3`,
    [kekId, after, limit],
  );
  return rows;
}

/** Replaces the old envelope. Returns false if it was changed meanwhile. */
export async function replaceWrapped(
  db: Queryable,
  kind: WrappedKind,
  { id: key, from, to }: { readonly id: string; readonly from: string; readonly to: string },
): Promise<boolean> {
  const { id, envelope } = COLUMNS[kind];
  const { rowCount } = await db.query(
    `UPDATE ${kind} SET ${envelope} = $3 WHERE ${id} = $1 AND ${envelope} = $2`,
    [key, from, to],
  );
  return rowCount === 1;
}
