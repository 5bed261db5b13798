/**
 * Publishes changes of a tenant's policy in the sequence of revocations. Once the change is answered, no process that
 * admits tokens applies the old policy.
 */
import type { EntrySources } from "../compliance/entry.ts";
import type { Actor } from "../compliance/entry-types.ts";
import type { Queryable } from "../database/pool.ts";
import { publishPolicyChange as publish } from "../database/repositories/tokens/revocations.ts";
import { newId } from "../domain/ids.ts";
import type { Acknowledged } from "./receipts.ts";

/** How long the change is kept. It exceeds the time for which processes cache a policy. In milliseconds. */
const KNOWN_FOR_MS = 60_000;

/**
 * Publishes a change. Must be the last step of the caller's transaction, after the change's compliance entry.
 *
 * @param db role signet_operator, or signet_api for its own tenant
 * @returns the change to wait for after the commit, before the caller answers
 */
export async function publishPolicyChange(
  db: Queryable,
  { tenantId, actor }: { readonly tenantId: string; readonly actor: Actor },
  sources: EntrySources,
): Promise<Acknowledged> {
  const id = newId("revocation", sources.clock.now(), sources.randomBytes);
  return { id, sequence: await publish(db, { id, tenantId, actor, lifeMs: KNOWN_FOR_MS }), tenant: tenantId };
}
