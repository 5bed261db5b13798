/** Revocations: how they are published, and how they are followed (migration 0005). */
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

/** One revocation as those who admit tokens need it. */
export interface FollowedRevocation {
  readonly seq: number;
  readonly kind: string;
  readonly target: string;
  /** What is left of its life, milliseconds; null: for ever. */
  readonly lifeMs: number | null;
}

/** The state of the sequence, and what came after the number that was asked for. */
export interface RevocationNews {
  readonly seq: number;
  /** Another one: another database, whose numbers mean something else. */
  readonly epoch: string;
  /** A standby may be behind, so what it says proves nothing. */
  readonly standby: boolean;
  readonly revocations: readonly FollowedRevocation[];
}

interface NewsRow {
  readonly clock: number;
  readonly epoch: string;
  readonly standby: boolean;
  readonly seq: number | null;
  readonly kind: string;
  readonly target: string;
  readonly life_ms: number | null;
}

/** Reads the sequence and the live revocations after `after`, of one instant (role signet_edge). */
export async function readRevocationNews(db: Queryable, after: number): Promise<RevocationNews> {
  const { rows } = await db.query<NewsRow>({
    name: "revocation-news",
    text: `SELECT c.seq AS clock, c.epoch, pg_is_in_recovery() AS standby, r.seq, r.kind, r.target,
                  (extract(epoch FROM r.expires_at - clock_timestamp()) * 1000)::float8 AS life_ms
             FROM rev_clock c
             LEFT JOIN revocations r ON r.seq > $1 AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())`,
    values: [after],
  });
  const first = rows[0];
  if (first === undefined) {
    throw new Error("the clock of the revocations is missing");
  }
  return {
    seq: first.clock,
    epoch: first.epoch,
    standby: first.standby,
    revocations: rows.flatMap(({ seq, kind, target, life_ms: lifeMs }) =>
      seq === null ? [] : [{ seq, kind, target, lifeMs }],
    ),
  };
}

/**
 * Forgets revocations of single tokens that have been over for a day: there may be many, and the compliance log keeps
 * what they were (role signet_worker, whose policy shows it no others).
 *
 * @returns how many
 */
export async function forgetTokenRevocations(db: Queryable, most: number): Promise<number> {
  const { rowCount } = await db.query(
    `DELETE FROM revocations WHERE seq IN (
       SELECT seq FROM revocations
        WHERE kind = 'jti' AND expires_at < now() - interval '1 day' ORDER BY expires_at LIMIT $1)`,
    [most],
  );
  return rowCount ?? 0;
}
