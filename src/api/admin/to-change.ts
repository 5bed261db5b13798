import { findPrincipal, type PrincipalRow } from "#database/repositories/tokens/principals.ts";
import { type TenantRow, findTenant } from "#database/repositories/tenants.ts";
import type { Queryable } from "#database/pool.ts";
import { found, SignetError } from "#domain/errors.ts";

/** Returns a tenant that can be changed. @throws SignetError NOT_FOUND, INVALID_STATE if it is erased */
export async function tenantToChange(db: Queryable, id: string): Promise<TenantRow> {
  const tenant = found(await findTenant(db, id), "tenant");
  if (tenant.state === "ERASED") {
    throw new SignetError("INVALID_STATE", { detail: "The tenant is erased." });
  }
  return tenant;
}

/**
 * Returns a principal that can still be changed.
 *
 * @throws SignetError NOT_FOUND, INVALID_STATE if it is revoked or its tenant is erased
 */
export async function principalToChange(db: Queryable, id: string): Promise<PrincipalRow> {
  const principal = found(await findPrincipal(db, id), "principal");
  await tenantToChange(db, principal.tenant_id);
  if (principal.state === "REVOKED") {
    throw new SignetError("INVALID_STATE", { detail: "The principal is revoked." });
  }
  return principal;
}
