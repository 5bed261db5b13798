/** Revocations: how they are published, and how they are followed (migration 0005). */
import type { Queryable } from "../../pool.ts";
import type { EntryBytes } from "../compliance-log.ts";

export interface RevocationRow {
  readonly id: string;
  /** Gapless, in the order of the commits. */
  readonly seq: number;
  readonly tenant_id: string | null;
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
    text: `SELECT id, seq, tenant_id, at, log_index, leaf_hash
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
  /** When it was published, Unix milliseconds of the database's clock. */
  readonly atMs: number;
  /** It undoes those before it: only tokens issued before this second of Unix time stay revoked. Null: a revocation. */
  readonly issuedBefore: number | null;
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
  readonly at_ms: number;
  readonly issued_before: number | null;
}

/** Reads the sequence and the live revocations after `after`, of one instant (role signet_edge). */
export async function readRevocationNews(db: Queryable, after: number): Promise<RevocationNews> {
  const { rows } = await db.query<NewsRow>({
    name: "revocation-news",
    text: `SELECT c.seq AS clock, c.epoch, pg_is_in_recovery() AS standby, r.seq, r.kind, r.target,
                  (extract(epoch FROM r.expires_at - clock_timestamp()) * 1000)::float8 AS life_ms,
                  (extract(epoch FROM r.at) * 1000)::float8 AS at_ms, r.issued_before
             FROM rev_clock c
             LEFT JOIN revocations r ON r.seq > $1 AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp())
            ORDER BY r.seq`,
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
    revocations: rows.flatMap(({ seq, kind, target, life_ms: lifeMs, at_ms: atMs, issued_before }) =>
      seq === null ? [] : [{ seq, kind, target, lifeMs, atMs, issuedBefore: issued_before }],
    ),
  };
}

/** A change of a tenant's policy. */
export interface PolicyChangeRow {
  readonly id: string;
  readonly tenantId: string;
  readonly actor: string;
  readonly lifeMs: number;
}

/**
 * Publishes that a tenant's policy has changed; refers to the newest compliance entry (role signet_operator, or
 * signet_api for its tenant).
 *
 * @returns its number in the sequence
 */
export async function publishPolicyChange(
  db: Queryable,
  { id, tenantId, actor, lifeMs }: PolicyChangeRow,
): Promise<number> {
  const { rows } = await db.query<{ seq: number }>(
    "SELECT publish_policy_change($1, $2, $3, $4::float8 * interval '1 millisecond') AS seq",
    [id, tenantId, actor, lifeMs],
  );
  return rows[0]?.seq ?? 0;
}

/**
 * Forgets revocations of single tokens, and changes of policies, that have been over for a day: there may be many, and
 * the compliance log keeps what they were (role signet_worker, whose policy shows it no others).
 *
 * @returns how many
 */
export async function forgetTokenRevocations(db: Queryable, most: number): Promise<number> {
  const { rowCount } = await db.query(
    `DELETE FROM revocations WHERE seq IN (
       SELECT seq FROM revocations
        WHERE kind IN ('jti', 'policy') AND expires_at < now() - interval '1 day' ORDER BY expires_at LIMIT $1)`,
    [most],
  );
  return rowCount ?? 0;
}

/** The first of the two numbers of the advisory lock that shows that a follower is connected; the second is its own. */
const FOLLOWER_LOCK_CLASS = 0x5349_474e;

/** Who follows the revocations over a connection. */
export interface FollowerRow {
  /** 31 bits, chosen by chance. */
  readonly lockKey: number;
  /** What kind of process it is. */
  readonly process: string;
}

/**
 * Makes a follower known over the connection that it follows over: it counts as long as that is open (role signet_edge).
 *
 * @throws when another one has its number
 */
export async function registerFollower(db: Queryable, { lockKey, process }: FollowerRow): Promise<void> {
  const { rows } = await db.query<{ locked: boolean }>("SELECT pg_try_advisory_lock($1, $2) AS locked", [
    FOLLOWER_LOCK_CLASS,
    lockKey,
  ]);
  if (rows[0]?.locked !== true) {
    throw new Error("another process has the number of this one");
  }
  await db.query(
    `WITH gone AS (
       DELETE FROM revocation_followers WHERE applied_at < now() - interval '1 day' AND lock_key <> $1
         AND lock_key::oid NOT IN (SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND classid = $3::int::oid)
     )
     INSERT INTO revocation_followers (lock_key, process, seq, applied_at) VALUES ($1, $2, 0, clock_timestamp())
     ON CONFLICT (lock_key) DO UPDATE SET process = excluded.process, seq = 0, applied_at = excluded.applied_at`,
    [lockKey, process, FOLLOWER_LOCK_CLASS],
  );
}

/** What a follower says that it obeys. */
export interface Acknowledgement {
  /** Every revocation up to this number. */
  readonly sequence: number;
  /** For how long already, by the follower's clock: a duration, so that its time of day does not matter. */
  readonly sinceMs: number;
}

/** Says what a follower obeys (role signet_edge). */
export async function acknowledge(
  db: Queryable,
  lockKey: number,
  { sequence, sinceMs }: Acknowledgement,
): Promise<void> {
  await db.query({
    name: "acknowledge-revocations",
    text: `UPDATE revocation_followers SET seq = $2, applied_at = clock_timestamp() - $3::float8 * interval '1 millisecond'
            WHERE lock_key = $1`,
    values: [lockKey, sequence, sinceMs],
  });
}

/** How far a revocation has spread. */
export interface Receipt {
  /** Processes that follow. */
  readonly live: number;
  /** Those of them that obey it. */
  readonly acked: number;
  /** What the slowest of these took; null when there is none. */
  readonly maxMs: number | null;
  /** It was written down before. */
  readonly reported: boolean;
}

/** Reads how far a revocation has spread (role signet_issuer). */
export async function readReceipt(db: Queryable, sequence: number): Promise<Receipt> {
  const { rows } = await db.query<{ live: number; acked: number; max_ms: number | null; reported: boolean }>({
    name: "read-revocation-receipt",
    text: "SELECT live, acked, max_ms, reported FROM revocation_receipt($1, $2)",
    values: [sequence, FOLLOWER_LOCK_CLASS],
  });
  const { live = 0, acked = 0, max_ms: maxMs = null, reported = true } = rows[0] ?? {};
  return { live, acked, maxMs, reported };
}

/** Writes down how a revocation has spread, with its compliance entry, unless that was done (role signet_issuer). */
export async function reportPropagation(
  db: Queryable,
  sequence: number,
  slowestMs: number | null,
  { beforeIndex, afterIndex }: EntryBytes,
): Promise<void> {
  await db.query("SELECT report_propagation($1, $2, $3, $4)", [sequence, slowestMs, beforeIndex, afterIndex]);
}

export interface LiftRow {
  readonly id: string;
  readonly tenantId: string;
  readonly reason: string | null;
  readonly actor: string;
  readonly lifeMs: number;
  /** How far an issuer's clock may be ahead of the database's. */
  readonly skewMs: number;
}

/**
 * Undoes the revocation of a tenant, with its compliance entry (role signet_operator).
 *
 * @returns its number in the sequence
 */
export async function liftTenantRevocation(
  db: Queryable,
  { id, tenantId, reason, actor, lifeMs, skewMs }: LiftRow,
  { beforeIndex, afterIndex }: EntryBytes,
): Promise<number> {
  const values = [id, tenantId, reason, actor, lifeMs, skewMs, beforeIndex, afterIndex];
  const { rows } = await db.query<{ seq: number }>(
    `SELECT lift_tenant_revocation($1, $2, $3, $4, $5::float8 * interval '1 millisecond',
       $6::float8 * interval '1 millisecond', $7, $8) AS seq`,
    values,
  );
  return rows[0]?.seq ?? 0;
}
