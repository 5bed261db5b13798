/**
 * Publishing that a tenant's policy has changed: a number in the sequence of revocations, so that no process that admits
 * tokens goes by the policy of before once the change is answered.
 */
import type { EntrySources } from "../compliance/entry.ts";
import type { Actor } from "../compliance/entry-types.ts";
import type { Queryable } from "../database/pool.ts";
import { publishPolicyChange as publish } from "../database/repositories/tokens/revocations.ts";
import { newId } from "../domain/ids.ts";
import type { Acknowledged } from "./receipts.ts";

/** Longer than a process goes by a policy without asking: who reads the sequence later has none that is older. */
const KNOWN_FOR_MS = 60_000;

/**
 * Publishes a change, as the last step of the caller's transaction and after the change's compliance entry.
 *
 * @param db role signet_operator, or signet_api for its own tenant
 * @returns what the caller waits for after the commit, before it answers
 */
export async function publishPolicyChange(
  db: Queryable,
  { tenantId, actor }: { readonly tenantId: string; readonly actor: Actor },
  sources: EntrySources,
): Promise<Acknowledged> {
  const id = newId("revocation", sources.clock.now(), sources.randomBytes);
  return { id, sequence: await publish(db, { id, tenantId, actor, lifeMs: KNOWN_FOR_MS }), tenant: tenantId };
}
