/** Publishes and reads revocations (migration 0005). */
import type { Queryable } from "#database/pool.ts";
import { sql } from "#database/sql.ts";
import { sendBeforeCommit } from "#database/transaction.ts";
import type { EntryBytes } from "../compliance-entries.ts";

export interface RevocationRow {
  readonly id: string;
  /** Sequence number without gaps, in the order of the commits. */
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
  /** Whether to publish even if the target was revoked before. */
  readonly disabledNow: boolean;
}

/** Publishes a revocation with its compliance entry and its notice, or returns the target's existing one. */
export async function publish(
  db: Queryable,
  row: NewRevocationRow,
  { beforeIndex, afterIndex }: EntryBytes,
): Promise<RevocationRow> {
  await sendBeforeCommit(db);
  const { rows } = await db.query<RevocationRow>({
    name: "publish-revocation-with-notice",
    ...sql`SELECT id, seq, tenant_id, at, log_index, leaf_hash
             FROM publish_revocation_with_notice(${row.id}, ${row.kind}, ${row.target}, ${row.tenantId}, ${row.reason}, ${row.actor},
               ${row.lifeMs}::float8 * interval '1 millisecond', ${row.disabledNow}, ${beforeIndex}, ${afterIndex})`,
  });
  return rows[0] as RevocationRow;
}

/** Returns the revocation or the change of policy with a sequence number (role signet_operator, or signet_api for its tenant). */
export async function findRevocation(db: Queryable, sequence: number): Promise<RevocationRow | undefined> {
  const { rows } = await db.query<RevocationRow>(
    "SELECT id, seq, tenant_id, at, log_index, leaf_hash FROM revocations WHERE seq = $1",
    [sequence],
  );
  return rows[0];
}

/** A change of a tenant's policy. */
export interface PolicyChangeRow {
  readonly id: string;
  readonly tenantId: string;
  readonly actor: string;
  readonly lifeMs: number;
}

/**
 * Publishes a change of a tenant's policy. It refers to the newest compliance entry (role signet_operator, or
 * signet_api for its tenant).
 *
 * @returns the sequence number
 */
export async function publishPolicyChange(
  db: Queryable,
  { id, tenantId, actor, lifeMs }: PolicyChangeRow,
): Promise<number> {
  await sendBeforeCommit(db);
  const { rows } = await db.query<{ seq: number }>(
    "SELECT publish_policy_change($1, $2, $3, $4::float8 * interval '1 millisecond') AS seq",
    [id, tenantId, actor, lifeMs],
  );
  return rows[0]?.seq ?? 0;
}

/**
 * Removes revocations of single tokens, and policy changes, that ended a day ago. There may be many, and the compliance
 * log keeps them (role signet_worker, whose policy shows it no others).
 *
 * @returns their number
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

/** First number of the advisory lock that marks a follower as connected. The second one is the follower's own. */
const FOLLOWER_LOCK_CLASS = 0x5349_474e;

/** A process that follows the revocations. */
export interface FollowerRow {
  /** Random number of 31 bits. */
  readonly lockKey: number;
  /** Kind of the process. */
  readonly process: string;
  /** Region of the process; null if unknown. */
  readonly region: string | null;
  /** Version of the process's build. */
  readonly version: string;
  /** How long an answer of the database lets the process admit tokens, in milliseconds. */
  readonly leaseMs: number;
}

/** How long a follower's own record may wait for a lock, in milliseconds: questions wait behind it. */
const LOCK_MS = 20;

/**
 * Writes to the records of followers without waiting for locks. A login from outside may hold any of these rows, or all,
 * and the questions about revocations share the connection. Sent at once, so that no question comes between.
 *
 * @throws DatabaseError if a lock is held
 */
async function withoutWaiting<T>(db: Queryable, write: () => Promise<T>): Promise<T> {
  const limited = db.query(`SET lock_timeout = ${LOCK_MS}`);
  const written = write();
  const unlimited = db.query("SET lock_timeout = 0");
  const [, result] = await Promise.allSettled([limited, written, unlimited]);
  if (result.status === "rejected") {
    throw result.reason;
  }
  return result.value;
}

/**
 * Registers a follower over the connection by which it follows. It counts while that connection is open (role
 * signet_edge).
 *
 * @throws if another follower has the same number, or somebody holds its record
 */
export async function registerFollower(
  db: Queryable,
  { lockKey, process, region, version, leaseMs }: FollowerRow,
): Promise<void> {
  const { rows } = await db.query<{ locked: boolean }>("SELECT pg_try_advisory_lock($1, $2) AS locked", [
    FOLLOWER_LOCK_CLASS,
    lockKey,
  ]);
  if (rows[0]?.locked !== true) {
    throw new Error("another process has the same lock key");
  }
  await writeFollower(db, { lockKey, process, region, version, leaseMs });
}

/** Writes a follower's record, and removes those that ended long ago, except the ones that somebody holds. */
async function writeFollower(
  db: Queryable,
  { lockKey, process, region, version, leaseMs }: FollowerRow,
): Promise<void> {
  const write = async (): Promise<unknown> =>
    await db.query(
      `WITH ended AS (
       SELECT lock_key FROM revocation_followers WHERE applied_at < now() - interval '1 day' AND lock_key <> $1
         AND lock_key::oid NOT IN (SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND classid = $3::int::oid)
       FOR UPDATE SKIP LOCKED
     ), gone AS (
       DELETE FROM revocation_followers WHERE lock_key IN (SELECT lock_key FROM ended)
     )
     INSERT INTO revocation_followers (lock_key, process, seq, applied_at, region, lease_ms, seen_at, version)
     VALUES ($1, $2, 0, clock_timestamp(), $4, $5, clock_timestamp(), $6)
     ON CONFLICT (lock_key) DO UPDATE SET process = excluded.process, seq = 0, applied_at = excluded.applied_at,
       region = excluded.region, lease_ms = excluded.lease_ms, seen_at = excluded.seen_at, version = excluded.version`,
      [lockKey, process, FOLLOWER_LOCK_CLASS, region, leaseMs, version],
    );
  await withoutWaiting(db, write);
}

/** Records that a follower is alive, and those behind it if it is a hub (role signet_edge). */
export async function markFollowerSeen(db: Queryable, lockKey: number): Promise<void> {
  const write = async (): Promise<unknown> =>
    await db.query(
      `UPDATE revocation_followers SET seen_at = clock_timestamp() WHERE lock_key IN (
         SELECT lock_key FROM revocation_followers WHERE lock_key = $1 OR via = $1 FOR UPDATE SKIP LOCKED)`,
      [lockKey],
    );
  await withoutWaiting(db, write);
}

/** Removes a follower that stops, so that receipts no longer name it (role signet_edge). */
export async function removeFollower(db: Queryable, lockKey: number): Promise<void> {
  const write = async (): Promise<unknown> =>
    await db.query("DELETE FROM revocation_followers WHERE lock_key = $1", [lockKey]);
  await withoutWaiting(db, write);
}

/** An acknowledgement by a follower. */
export interface Acknowledgement {
  /** Sequence number up to which it applies every revocation. */
  readonly sequence: number;
  /** For how long it has done so, by its own clock. As a duration, it does not depend on the time of day. */
  readonly sinceMs: number;
}

/** Stores an acknowledgement (role signet_edge). */
export async function acknowledge(
  db: Queryable,
  lockKey: number,
  { sequence, sinceMs }: Acknowledgement,
): Promise<void> {
  const write = async (): Promise<unknown> =>
    await db.query({
      name: "acknowledge-revocations",
      text: `UPDATE revocation_followers SET seq = $2, applied_at = clock_timestamp() - $3::float8 * interval '1 millisecond'
            WHERE lock_key = $1`,
      values: [lockKey, sequence, sinceMs],
    });
  await withoutWaiting(db, write);
}

/** What the database knows about one follower of a revocation. */
export interface FollowerStanding {
  readonly lockKey: number;
  readonly process: string;
  readonly region: string | null;
  /** Null for a process of an earlier version. */
  readonly leaseMs: number | null;
  /** Whether its connection is open. */
  readonly connected: boolean;
  /** Whether it applies the revocation. */
  readonly acked: boolean;
  /** Time from the revocation's entry to its acknowledgement, in milliseconds; null once the receipt is recorded. */
  readonly ms: number | null;
}

/** The propagation of a revocation as the database knows it. */
export interface Propagation {
  readonly followers: readonly FollowerStanding[];
  /** Whether it was already recorded. */
  readonly reported: boolean;
  /** What was recorded: the time of the slowest, in milliseconds, and the processes. */
  readonly slowestMs: number | null;
  readonly recorded: unknown;
}

interface PropagationRow extends Omit<FollowerStanding, "lockKey" | "leaseMs"> {
  readonly lock_key: number | null;
  readonly lease_ms: number | null;
  readonly slowest_ms: number | null;
  readonly reported: boolean;
  readonly recorded: unknown;
}

/** Reads the propagation of a revocation (role signet_issuer). */
export async function readPropagation(db: Queryable, sequence: number): Promise<Propagation> {
  const { rows } = await db.query<PropagationRow>({
    name: "read-revocation-processes",
    text: `SELECT lock_key, process, region, lease_ms, connected, acked, ms, slowest_ms, reported, recorded
             FROM revocation_processes($1, $2)`,
    values: [sequence, FOLLOWER_LOCK_CLASS],
  });
  const [first] = rows;
  return {
    followers: rows.flatMap(
      ({ lock_key: lockKey, lease_ms: leaseMs, process, region, connected, acked, ms }) =>
        lockKey === null ? [] : [{ lockKey, process, region, leaseMs, connected, acked, ms }],
    ),
    reported: first?.reported ?? true,
    slowestMs: first?.slowest_ms ?? null,
    recorded: first?.recorded ?? null,
  };
}

/** The recorded propagation: the time of the slowest process, in milliseconds, and the processes as JSON. */
export interface PropagationReport {
  readonly slowestMs: number | null;
  readonly processes: string;
}

/** Records the propagation of a revocation with its compliance entry, unless already recorded (role signet_issuer). */
export async function reportPropagation(
  db: Queryable,
  sequence: number,
  { slowestMs, processes }: PropagationReport,
  { beforeIndex, afterIndex }: EntryBytes,
): Promise<void> {
  await db.query("SELECT report_propagation($1, $2, $3::jsonb, $4, $5)", [
    sequence,
    slowestMs,
    processes,
    beforeIndex,
    afterIndex,
  ]);
}

export interface LiftRow {
  readonly id: string;
  readonly tenantId: string;
  readonly reason: string | null;
  readonly actor: string;
  readonly lifeMs: number;
  /** How far an issuer's clock may be ahead of the database's, in milliseconds. */
  readonly skewMs: number;
}

/**
 * Lifts the revocation of a tenant, with its compliance entry (role signet_operator).
 *
 * @returns the sequence number
 */
export async function liftTenantRevocation(
  db: Queryable,
  { id, tenantId, reason, actor, lifeMs, skewMs }: LiftRow,
  { beforeIndex, afterIndex }: EntryBytes,
): Promise<number> {
  await sendBeforeCommit(db);
  const { rows } = await db.query<{ seq: number }>(
    sql`SELECT lift_tenant_revocation(${id}, ${tenantId}, ${reason}, ${actor},
       ${lifeMs}::float8 * interval '1 millisecond', ${skewMs}::float8 * interval '1 millisecond',
       ${beforeIndex}, ${afterIndex}) AS seq`,
  );
  return rows[0]?.seq ?? 0;
}

/** Channel on which the primary announces each revocation with its line, state and codes, for hubs. */
export const REVOCATION_LINES_CHANNEL = "signet_revocation_lines";

/** A proof, and the lines after the requested number. */
export interface ProofRow {
  readonly clock: number;
  readonly epoch: string;
  readonly head: string;
  readonly keys_digest: string;
  /** Null if the caller knows them. */
  readonly keys: string | null;
  readonly at_us: number;
  /** Empty on a standby. */
  readonly codes: string;
  readonly line: string | null;
}

/**
 * Proves the state of the sequence over a nonce of 32 bytes (role signet_edge). One row for each line after `after`, at
 * most 10,000, or one row without a line.
 */
export async function proveRevocations(
  db: Queryable,
  nonce: Buffer,
  { keysDigest, after }: { readonly keysDigest: string | undefined; readonly after: number },
): Promise<readonly ProofRow[]> {
  const { rows } = await db.query<ProofRow>({
    name: "prove-revocations",
    text: `SELECT p.clock, p.epoch, p.head, p.keys_digest, p.keys, p.at_us, p.codes, r.line
             FROM prove_revocations($1, $2) p
             LEFT JOIN LATERAL (
               SELECT revocation_line(seq, kind, target, at, issued_before) AS line
                 FROM revocations WHERE seq > $3 ORDER BY seq LIMIT 10000) r ON true`,
    values: [nonce, keysDigest ?? null, after],
  });
  return rows;
}

/** A follower behind a hub, and the number up to which it applies the revocations. */
export interface HubFollowerRow extends FollowerRow {
  readonly sequence: number;
  /** For how long it has done so, in milliseconds. */
  readonly sinceMs: number;
}

/** Stores the followers behind a hub, in one statement, except records that somebody holds (role signet_edge). */
export async function reportFollowers(
  db: Queryable,
  hub: number,
  followers: readonly HubFollowerRow[],
): Promise<void> {
  const write = async (): Promise<unknown> =>
    await db.query({
      name: "report-followers",
      text: `WITH free AS (
             SELECT lock_key FROM revocation_followers WHERE lock_key = ANY ($1::int[]) FOR UPDATE SKIP LOCKED)
           INSERT INTO revocation_followers AS known
             (lock_key, process, region, lease_ms, seq, applied_at, seen_at, via, version)
           SELECT lock_key, process, region, lease_ms, seq, clock_timestamp() - since * interval '1 millisecond',
                  clock_timestamp(), $7, version
             FROM unnest($1::int[], $2::text[], $3::text[], $4::int[], $5::bigint[], $6::float8[], $8::text[])
               AS f (lock_key, process, region, lease_ms, seq, since, version)
            WHERE lock_key IN (SELECT lock_key FROM free)
               OR NOT EXISTS (SELECT FROM revocation_followers k WHERE k.lock_key = f.lock_key)
            ORDER BY lock_key
           ON CONFLICT (lock_key) DO UPDATE SET process = excluded.process, region = excluded.region,
             version = excluded.version, lease_ms = excluded.lease_ms, seen_at = excluded.seen_at, via = excluded.via,
             seq = greatest(known.seq, excluded.seq),
             applied_at = CASE WHEN excluded.seq > known.seq THEN excluded.applied_at ELSE known.applied_at END`,
      values: [
        followers.map(({ lockKey }) => lockKey),
        followers.map(({ process }) => process),
        followers.map(({ region }) => region),
        followers.map(({ leaseMs }) => leaseMs),
        followers.map(({ sequence }) => sequence),
        followers.map(({ sinceMs }) => sinceMs),
        hub,
        followers.map(({ version }) => version),
      ],
    });
  await withoutWaiting(db, write);
}

/** Removes the followers behind a hub that stopped, or records that they are not connected (role signet_edge). */
export async function loseFollowers(
  db: Queryable,
  {
    hub,
    lockKeys,
    stopped,
  }: { readonly hub: number; readonly lockKeys: readonly number[]; readonly stopped: boolean },
): Promise<void> {
  const free = `lock_key IN (
    SELECT lock_key FROM revocation_followers WHERE via = $1 AND lock_key = ANY($2) FOR UPDATE SKIP LOCKED)`;
  const write = async (): Promise<unknown> =>
    await db.query(
      stopped
        ? `DELETE FROM revocation_followers WHERE ${free}`
        : `UPDATE revocation_followers SET via = NULL WHERE ${free}`,
      [hub, lockKeys],
    );
  await withoutWaiting(db, write);
}

/** The connected followers of one kind, version and region. */
export interface FollowerCounts {
  readonly region: string | null;
  readonly process: string;
  /** Null for processes of an earlier version. */
  readonly version: string | null;
  /** The longest of their leases, in milliseconds. */
  readonly lease_ms: number | null;
  readonly connected: number;
  /** Those that have not acknowledged the last revocation. */
  readonly behind: number;
  /** Age of the last revocation, in milliseconds; null if there is none. */
  readonly behind_ms: number | null;
}

/** Counts the connected followers (role signet_operator). */
export async function countFollowers(db: Queryable): Promise<FollowerCounts[]> {
  const { rows } = await db.query<FollowerCounts>({
    name: "count-followers",
    text: `SELECT region, process, version, lease_ms, connected, behind, behind_ms
             FROM revocation_follower_counts($1)`,
    values: [FOLLOWER_LOCK_CLASS],
  });
  return rows;
}
