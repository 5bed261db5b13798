/** Revocations and changes of credentials whose events are not published yet (migrations 0068, 0079; role signet_operator). */
import type { Queryable } from "#database/pool.ts";

/** Channel that announces new rows. */
export const NOTICES_CHANNEL = "signet_revocation_notices";

/** Kinds of notices that a credential was created, has another secret, or has ended by plan. */
export const CREDENTIAL_CREATED = "created";
export const CREDENTIAL_ROTATED = "rotated";
export const CREDENTIAL_ENDED = "ended";
/** Kind of a notice that a principal has other scopes. Other notices have the kinds of revocations. */
export const SCOPES_CHANGED = "scopes";

/** A revocation, or another change, of which to tell the tenant's endpoints and streams. */
export interface RevocationNotice {
  readonly id: number;
  /** A kind of revocation, or one of the kinds above. */
  readonly kind: string;
  /** Id of a credential, principal or tenant; `jti`. */
  readonly target: string;
  readonly tenant_id: string;
  readonly reason: string | null;
  readonly actor: string;
  /** Time of the change, by the database's clock. */
  readonly at: Date;
  readonly details: NoticeDetails | null;
}

/** What events tell beside the target. */
interface NoticeDetails {
  /** Of a new credential: whether it names a certificate. */
  readonly certificate?: boolean;
  /** Of a principal: its scopes after the change, as in a token. */
  readonly scope?: string;
}

export type NewNotice = Omit<RevocationNotice, "id" | "reason" | "details"> &
  Partial<Pick<RevocationNotice, "reason" | "details">>;

/**
 * Adds notices in the transaction of their changes, and notices of revocations that another cell has published (role
 * signet_operator; signet_api for new credentials of its tenant; signet_rotator for rotations and ends).
 */
export async function insertNotices(db: Queryable, notices: readonly NewNotice[]): Promise<void> {
  if (notices.length === 0) {
    return;
  }
  await db.query(
    `INSERT INTO revocation_notices (kind, target, tenant_id, reason, actor, at, details)
      SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::jsonb[])`,
    [
      notices.map(({ kind }) => kind),
      notices.map(({ target }) => target),
      notices.map(({ tenant_id: tenantId }) => tenantId),
      notices.map(({ reason = null }) => reason),
      notices.map(({ actor }) => actor),
      notices.map(({ at }) => at),
      notices.map(({ details = null }) => details && JSON.stringify(details)),
    ],
  );
}

/** Returns the tenants with notices. */
export async function listTenantsToTell(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ tenant_id: string }>(
    "SELECT DISTINCT tenant_id FROM revocation_notices ORDER BY tenant_id",
  );
  return rows.map(({ tenant_id: tenantId }) => tenantId);
}

/** Removes a tenant's oldest notices and returns them, without those that another transaction removes. */
export async function takeNotices(
  db: Queryable,
  tenantId: string,
  limit: number,
): Promise<RevocationNotice[]> {
  const { rows } = await db.query<RevocationNotice>(
    `DELETE FROM revocation_notices WHERE id IN (
       SELECT id FROM revocation_notices WHERE tenant_id = $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
     RETURNING id, kind, target, tenant_id, reason, actor, at, details`,
    [tenantId, limit],
  );
  return rows.toSorted((one, other) => one.id - other.id);
}
