/** Emergency revocation of a credential, a principal or a tenant: disabled, and published at once. */
import type { EntryServices } from "#compliance/entry.ts";
import type { Queryable } from "#database/pool.ts";
import { type Revocable, takeOutOfUse } from "#database/repositories/tokens/revocable.ts";
import { found } from "#domain/errors.ts";
import { holdTenant } from "./hold.ts";
import { type NewRevocation, publishRevocation, type Revocation } from "./publish-revocation.ts";

/** Author and reason of a revocation. */
export type RevokedBy = Pick<NewRevocation, "actor" | "reason" | "requestId"> & {
  /** Whether to hold the tenant, too: its deliveries wait, and its endpoints' secrets do not change. */
  readonly hold?: boolean;
};

/**
 * Revokes a target as the last step of the caller's transaction. An existing revocation is kept. It needs nothing but
 * PostgreSQL: a worker publishes the events of the tenant's endpoints and streams later (webhooks/revocation-notices.ts).
 *
 * @throws SignetError `NOT_FOUND` if the target does not exist, or not in the named tenant
 */
export async function revoke(
  db: Queryable,
  target: Revocable,
  by: RevokedBy,
  sources: EntryServices,
): Promise<Revocation> {
  const taken = found(await takeOutOfUse(db, target, new Date(sources.clock.now())), target.noun);
  const { id, tenantId, changed } = taken;
  if (by.hold === true) {
    await holdTenant(db, tenantId, by, sources);
  }
  return await publishRevocation(
    db,
    { ...by, kind: target.noun, target: id, tenant: tenantId, disabledNow: changed },
    sources,
  );
}
