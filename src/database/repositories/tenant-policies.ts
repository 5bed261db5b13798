/** The data of a tenant that the api needs for every request. */
import type { TenantLimitValues } from "#config/tenant-limits.ts";
import type { Queryable } from "../pool.ts";

export interface TenantPolicyRow {
  readonly id: string;
  readonly region: string;
  /** Its own limits. Missing ones come from the settings. */
  readonly limits: Partial<TenantLimitValues>;
  /** Credentials that must sign what they publish. */
  readonly signing: readonly string[];
}

/** Returns the policies of these tenants, in any order (role signet_issuer). */
export async function findTenantPolicies(
  db: Queryable,
  tenantIds: readonly string[],
): Promise<TenantPolicyRow[]> {
  const { rows } = await db.query<TenantPolicyRow>({
    name: "find-tenant-policies",
    text: `SELECT t.id, t.region, t.limits,
        ARRAY(SELECT c.id FROM credentials c WHERE c.tenant_id = t.id AND c.signature_required) AS signing
      FROM tenants t WHERE t.id = ANY ($1::text[])`,
    values: [tenantIds],
  });
  return rows;
}

/** Returns a tenant's own limits; undefined for an unknown tenant (role signet_operator). */
export async function findTenantLimits(
  db: Queryable,
  id: string,
): Promise<Partial<TenantLimitValues> | undefined> {
  const { rows } = await db.query<Pick<TenantPolicyRow, "limits">>(
    "SELECT limits FROM tenants WHERE id = $1 FOR UPDATE",
    [id],
  );
  return rows[0]?.limits;
}

/** Replaces a tenant's own limits (role signet_operator). */
export async function setTenantLimits(
  db: Queryable,
  id: string,
  limits: Partial<TenantLimitValues>,
): Promise<void> {
  await db.query("UPDATE tenants SET limits = $2 WHERE id = $1", [id, JSON.stringify(limits)]);
}
