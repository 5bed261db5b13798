/** Tenants' own brands of the portal: only the members that differ from the settings are stored. */
import type { PortalBrand } from "#domain/portal-brand.ts";
import type { Queryable } from "../pool.ts";

/** Returns a tenant's own brand; undefined for an unknown tenant (role signet_api). */
export async function findPortalBrand(db: Queryable, id: string): Promise<Partial<PortalBrand> | undefined> {
  const { rows } = await db.query<{ brand: Partial<PortalBrand> }>({
    name: "find-portal-brand",
    text: "SELECT portal_brand AS brand FROM tenants WHERE id = $1",
    values: [id],
  });
  return rows[0]?.brand;
}

/** Like {@link findPortalBrand}, and locks the tenant's row (role signet_operator). */
export async function lockPortalBrand(db: Queryable, id: string): Promise<Partial<PortalBrand> | undefined> {
  const { rows } = await db.query<{ brand: Partial<PortalBrand> }>(
    "SELECT portal_brand AS brand FROM tenants WHERE id = $1 FOR UPDATE",
    [id],
  );
  return rows[0]?.brand;
}

/** Replaces a tenant's own brand (role signet_operator). */
export async function setPortalBrand(db: Queryable, id: string, brand: Partial<PortalBrand>): Promise<void> {
  await db.query("UPDATE tenants SET portal_brand = $2 WHERE id = $1", [id, JSON.stringify(brand)]);
}
