import { findPrincipal, type PrincipalRow } from "../../database/repositories/tokens/principals.ts";
import { type TenantRow, findTenant } from "../../database/repositories/tenants.ts";
import type { Queryable } from "../../database/pool.ts";
import { SignetError } from "../../domain/errors.ts";

/** Returns the row. @throws SignetError NOT_FOUND if it is undefined */
export function found<Row>(row: Row | undefined, noun: string): Row {
  if (row === undefined) {
    throw new SignetError("NOT_FOUND", { detail: `There is no such ${noun}.` });
  }
  return row;
}

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
