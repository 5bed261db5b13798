/** Holds on tenants. Deliveries wait, and the secrets of endpoints do not change, until the tenant is released. */
import { appendEntry } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { Queryable } from "#database/pool.ts";
import { postponeMoves } from "#database/repositories/endpoints/endpoint-secrets.ts";
import { lockTenantHold, setTenantHold } from "#database/repositories/tenants.ts";
import type { NewRevocation } from "./publish-revocation.ts";

/** Author and reason of a hold or a release. */
type HeldBy = Pick<NewRevocation, "actor" | "reason" | "requestId">;

async function record(
  db: Queryable,
  tenantId: string,
  { by, type }: { by: HeldBy; type: "tenant.held" | "tenant.released" },
  sources: EntryServices,
): Promise<void> {
  const { actor, reason, requestId } = by;
  await appendEntry(db, { type, actor, tenant: tenantId, target: tenantId, reason, requestId }, sources);
}

/** Holds a tenant in the caller's transaction, with an entry `tenant.held` if it was not held already. */
export async function holdTenant(
  db: Queryable,
  tenantId: string,
  by: HeldBy,
  sources: EntryServices,
): Promise<void> {
  if (await setTenantHold(db, tenantId, new Date(sources.clock.now()))) {
    await record(db, tenantId, { by, type: "tenant.held" }, sources);
  }
}

/**
 * Releases a tenant in the caller's transaction, with an entry `tenant.released` if it was held (role signet_operator).
 */
export async function releaseTenant(
  db: Queryable,
  tenantId: string,
  by: HeldBy,
  sources: EntryServices,
): Promise<void> {
  const heldAt = await lockTenantHold(db, tenantId);
  if (await setTenantHold(db, tenantId, null)) {
    if (heldAt !== null) {
      // A rotation that was paused still gives its receiver the full time.
      await postponeMoves(db, tenantId, { heldAt, releasedAt: new Date(sources.clock.now()) });
    }
    await record(db, tenantId, { by, type: "tenant.released" }, sources);
  }
}
