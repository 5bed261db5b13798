/** Lifts the revocation of a tenant. Its old tokens stay invalid; new ones are valid. */
import { encodeEntry, type EntrySources } from "../compliance/entry.ts";
import type { Queryable } from "../database/pool.ts";
import { liftTenantRevocation } from "../database/repositories/tokens/revocations.ts";
import { newId } from "../domain/ids.ts";
import { REVOCATION_LIFE_MS } from "./kinds.ts";
import type { NewRevocation } from "./publish-revocation.ts";
import type { Acknowledged } from "./receipts.ts";

/** How far the clock of a token-issuing process may be ahead of the database's, in milliseconds. */
const SKEW_MS = 1_000;

/**
 * Publishes that a tenant is readmitted, with its entry `tenant.resumed`. Must be the last step of the caller's
 * transaction.
 *
 * @param db role signet_operator
 */
export async function liftRevocation(
  db: Queryable,
  tenantId: string,
  { actor, reason, requestId }: Pick<NewRevocation, "actor" | "reason" | "requestId">,
  sources: EntrySources,
): Promise<Acknowledged> {
  const id = newId("revocation", sources.clock.now(), sources.randomBytes);
  const entry = encodeEntry(
    { type: "tenant.resumed", actor, tenant: tenantId, target: tenantId, reason, requestId },
    sources,
  );
  const lifeMs = REVOCATION_LIFE_MS.tenant ?? 0;
  const row = { id, tenantId, reason: reason ?? null, actor, lifeMs, skewMs: SKEW_MS };
  return { id, sequence: await liftTenantRevocation(db, row, entry), tenant: tenantId };
}
