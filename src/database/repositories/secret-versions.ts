/** Versions of client secrets and their succession (role signet_rotator). All times come from the caller. */
import { OVERDUE_MS, type RetirementReason } from "#domain/secret-version.ts";
import type { Queryable } from "../pool.ts";
import { sql } from "../sql.ts";
import type { SecretVersionKey } from "./tokens/clients.ts";

export interface NewSuccessor extends SecretVersionKey {
  readonly tenant_id: string;
  readonly mac: Buffer;
  readonly mac_key_id: string;
  readonly wrapped: string;
  readonly nowMs: number;
}

/**
 * Adds a successor, unless one exists or the credential was revoked meanwhile. A concurrent caller waits for the first
 * one to commit and adds none.
 *
 * @returns whether this call added it
 */
export async function insertSuccessor(
  db: Queryable,
  { credential_id, version, tenant_id, mac, mac_key_id, wrapped, nowMs }: NewSuccessor,
): Promise<boolean> {
  const { rowCount } = await db.query(
    sql`INSERT INTO secret_versions (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at, wrapped)
     SELECT c.id, ${version}, c.tenant_id, ${mac}, ${mac_key_id}, 'PENDING', ${new Date(nowMs)}, ${wrapped} FROM credentials c
      WHERE c.id = ${credential_id} AND c.tenant_id = ${tenant_id} AND c.state = 'ACTIVE'
     ON CONFLICT (credential_id, version) DO NOTHING`,
  );
  return rowCount === 1;
}

/** Returns a version's wrapped secret; `null` if it was erased, `undefined` if the version does not exist. */
export async function findWrapped(
  db: Queryable,
  { credential_id: credentialId, version }: SecretVersionKey,
): Promise<string | null | undefined> {
  const { rows } = await db.query<{ wrapped: string | null }>({
    name: "find-wrapped",
    text: "SELECT wrapped FROM secret_versions WHERE credential_id = $1 AND version = $2",
    values: [credentialId, version],
  });
  return rows[0]?.wrapped;
}

/** Records that the due date was reported, and when it is overdue. @returns whether it was not reported before */
export async function reportDue(
  db: Queryable,
  { credential_id: credentialId, version }: SecretVersionKey,
  nowMs: number,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `UPDATE secret_versions SET due_reported_at = $3, next_alert_at = due_at + $4::float8 * interval '1 millisecond'
      WHERE credential_id = $1 AND version = $2 AND due_reported_at IS NULL`,
    [credentialId, version, new Date(nowMs), OVERDUE_MS],
  );
  return rowCount === 1;
}

export interface Acknowledgement extends SecretVersionKey {
  readonly nowMs: number;
  /** When the version's own successor is due, and when the version ends at the latest; Unix milliseconds. */
  readonly dueAt: number;
  readonly retireBy: number;
}

/**
 * Records the first use of a successor. It becomes the active version, and earlier ones end once they are unused.
 *
 * @returns whether this was the first use
 */
export async function acknowledgeSuccessor(db: Queryable, ack: Acknowledgement): Promise<boolean> {
  const at = new Date(ack.nowMs);
  const { rowCount } = await db.query(
    `UPDATE secret_versions SET state = 'ACTIVE', acked_at = $3, due_at = $4, retire_by = $5
      WHERE credential_id = $1 AND version = $2 AND state = 'PENDING'`,
    [ack.credential_id, ack.version, at, new Date(ack.dueAt), new Date(ack.retireBy)],
  );
  if (rowCount !== 1) {
    return false;
  }
  await db.query(
    `UPDATE secret_versions SET state = 'RETIRING', superseded_at = $3
      WHERE credential_id = $1 AND version < $2 AND state = 'ACTIVE'`,
    [ack.credential_id, ack.version, at],
  );
  return true;
}

/** Records that a version has ended. @returns whether this was not recorded before */
export async function retireVersion(
  db: Queryable,
  { credential_id: credentialId, version }: SecretVersionKey,
  retirement: { readonly at: number; readonly reason: RetirementReason },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `UPDATE secret_versions SET state = 'RETIRED', retired_at = $3, retired_reason = $4
      WHERE credential_id = $1 AND version = $2 AND state IN ('ACTIVE', 'RETIRING')`,
    [credentialId, version, new Date(retirement.at), retirement.reason],
  );
  return rowCount === 1;
}

/** Increments the counts of how often successors were handed out. */
export async function countDeliveries(
  db: Queryable,
  delivered: readonly (SecretVersionKey & { readonly count: number })[],
): Promise<void> {
  await db.query(
    sql`UPDATE secret_versions v SET delivered_count = v.delivered_count + d.count
       FROM unnest(
        ${delivered.map((key) => key.credential_id)}::text[],
        ${delivered.map((key) => key.version)}::int[],
        ${delivered.map((key) => key.count)}::int[]) AS d (credential_id, version, count)
      WHERE v.credential_id = d.credential_id AND v.version = d.version`,
  );
}

const REPORTED_COLUMN = { rescue: "rescue_reported_at", misuse: "misuse_reported_at" } as const;

/** Uses of ended versions: `rescue` returns a token, `misuse` does not. */
export type LateUse = keyof typeof REPORTED_COLUMN;

/** Records that a late use is reported. @returns whether none was reported since `since` */
export async function reportLateUse(
  db: Queryable,
  use: LateUse,
  { credential_id: credentialId, version }: SecretVersionKey,
  { nowMs, sinceMs }: { readonly nowMs: number; readonly sinceMs: number },
): Promise<boolean> {
  const column = REPORTED_COLUMN[use];
  const { rowCount } = await db.query(
    `UPDATE secret_versions SET ${column} = $3
      WHERE credential_id = $1 AND version = $2 AND (${column} IS NULL OR ${column} <= $4)`,
    [credentialId, version, new Date(nowMs), new Date(sinceMs)],
  );
  return rowCount === 1;
}
