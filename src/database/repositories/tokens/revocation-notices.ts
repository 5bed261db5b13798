/** Revocations and ends of credentials whose events are not published yet (migration 0068; role signet_operator). */
import type { Queryable } from "../../pool.ts";

/** Channel that announces new rows. */
export const NOTICES_CHANNEL = "signet_revocation_notices";

/** Kind of a notice that a credential has ended by plan. Other notices have the kinds of revocations. */
export const CREDENTIAL_ENDED = "ended";

/** A revocation, or the end of a credential, of which to tell the tenant's endpoints and streams. */
export interface RevocationNotice {
  readonly id: number;
  /** A kind of revocation, or {@link CREDENTIAL_ENDED}. */
  readonly kind: string;
  /** Id of a credential, principal or tenant; `jti`. */
  readonly target: string;
  readonly tenant_id: string;
  readonly reason: string | null;
  readonly actor: string;
  /** Time of the revocation, by the database's clock, or of the end. */
  readonly at: Date;
}

/** Adds notices of revocations that another cell has published, or of ends (role signet_operator; signet_rotator for ends). */
export async function insertNotices(
  db: Queryable,
  revocations: readonly Omit<RevocationNotice, "id">[],
): Promise<void> {
  if (revocations.length === 0) {
    return;
  }
  const column = <Name extends keyof (typeof revocations)[number]>(name: Name) =>
    revocations.map((revocation) => revocation[name]);
  await db.query(
    `INSERT INTO revocation_notices (kind, target, tenant_id, reason, actor, at)
      SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])`,
    [column("kind"), column("target"), column("tenant_id"), column("reason"), column("actor"), column("at")],
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
     RETURNING id, kind, target, tenant_id, reason, actor, at`,
    [tenantId, limit],
  );
  return rows.toSorted((one, other) => one.id - other.id);
}
