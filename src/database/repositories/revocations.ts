/** Revocations: how they are published (migration 0005). */
import type { Queryable } from "../pool.ts";
import type { EntryBytes } from "./compliance-log.ts";

export interface RevocationRow {
  readonly id: string;
  /** Gapless, in the order of the commits. */
  readonly seq: number;
  readonly at: Date;
  readonly log_index: number;
  readonly leaf_hash: Buffer;
}

export interface NewRevocationRow {
  readonly id: string;
  readonly kind: string;
  readonly target: string;
  readonly tenantId: string | null;
  readonly reason: string | null;
  readonly actor: string;
  readonly lifeMs: number | null;
  /** Publish also when the target was revoked before. */
  readonly anew: boolean;
}

/** Publishes a revocation with its compliance entry, or finds the one that the target has. */
export async function publish(
  db: Queryable,
  row: NewRevocationRow,
  { beforeIndex, afterIndex }: EntryBytes,
): Promise<RevocationRow> {
  const { rows } = await db.query<RevocationRow>({
    name: "publish-revocation",
    text: `SELECT id, seq, at, log_index, leaf_hash
             FROM publish_revocation($1, $2, $3, $4, $5, $6, $7::float8 * interval '1 millisecond', $8, $9, $10)`,
    values: [
      row.id,
      row.kind,
      row.target,
      row.tenantId,
      row.reason,
      row.actor,
      row.lifeMs,
      row.anew,
      beforeIndex,
      afterIndex,
    ],
  });
  return rows[0] as RevocationRow;
}
