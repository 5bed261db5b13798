/** `tokens.issued`: the tokens that a process issued for each tenant. */
import type { Pool } from "../../database/pool.ts";
import { transaction } from "../../database/transaction.ts";
import type { IssuedCount } from "./issued-tokens.ts";
import { appendEntry } from "../../compliance/append-entry.ts";
import type { EntrySources } from "../../compliance/entry.ts";

/** Appends an entry for each tenant, all or none (role signet_issuer). */
export async function appendIssuedTokens(
  pool: Pool,
  counts: readonly IssuedCount[],
  sources: EntrySources,
): Promise<void> {
  await transaction(pool, async (db) => {
    for (const { tenantId, count, digest, firstMs, lastMs } of counts) {
      const details = {
        count,
        digest,
        first_at: new Date(firstMs).toISOString(),
        last_at: new Date(lastMs).toISOString(),
      };
      await appendEntry(
        db,
        { type: "tokens.issued", actor: "system:issuer", tenant: tenantId, target: null, details },
        sources,
      );
    }
  });
}
