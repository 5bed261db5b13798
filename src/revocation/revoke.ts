/** Emergency revocation of a credential, a principal or a tenant: out of use, and known everywhere at once. */
import type { EntrySources } from "../compliance/entry.ts";
import type { Queryable } from "../database/pool.ts";
import { type Revocable, takeOutOfUse } from "../database/repositories/revocable.ts";
import { SignetError } from "../errors.ts";
import { type NewRevocation, publishRevocation, type Revocation } from "./publish-revocation.ts";

/** Who revokes, and why. */
export type RevokedBy = Pick<NewRevocation, "actor" | "reason" | "requestId">;

/**
 * Revokes, as the last step of the caller's transaction. What is revoked already keeps its revocation.
 *
 * @throws SignetError `NOT_FOUND` when there is no such thing, or not in the tenant that is named
 */
export async function revoke(
  db: Queryable,
  target: Revocable,
  by: RevokedBy,
  sources: EntrySources,
): Promise<Revocation> {
  const taken = await takeOutOfUse(db, target, new Date(sources.clock.now()));
  if (taken === undefined) {
    throw new SignetError("NOT_FOUND", { detail: `There is no such ${target.noun}.` });
  }
  return await publishRevocation(
    db,
    { ...by, kind: target.noun, target: target.id, tenant: taken.tenantId, anew: taken.changed },
    sources,
  );
}
