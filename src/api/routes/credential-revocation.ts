/** Emergency revocation of a tenant's own credentials, in one call. */
import type { Pool } from "../../database/pool.ts";
import { tenantTransaction } from "../../database/transaction.ts";
import type { RevocationServices } from "../../revocation/receipts.ts";
import { revoke } from "../../revocation/revoke.ts";
import { IdParams } from "../../http/common.ts";
import { presentRevocation, RevocationReceipt, RevocationRequest } from "../schemas/revocations.ts";
import type { SignetServer } from "../../http/types.ts";

export function registerCredentialRevocation(
  server: SignetServer,
  pool: Pool,
  services: RevocationServices,
): void {
  server.post(
    "/v1/credentials/:id/revoke",
    {
      // In an emergency the body may be omitted.
      config: { scopes: ["credentials:revoke"], optionalBody: true },
      schema: {
        tags: ["credentials"],
        params: IdParams("credential"),
        body: RevocationRequest,
        response: { 200: RevocationReceipt },
      },
    },
    async ({ id: requestId, identity, params: { id }, body }) => {
      const { tenantId } = identity;
      const { reason, scope } = body;
      const actor = `credential:${identity.credentialId}` as const;
      const by = { actor, reason, requestId, hold: scope === "tenant" };
      const revocation = await tenantTransaction(
        pool,
        tenantId,
        async (db) => await revoke(db, { noun: "credential", id, tenantId }, by, services),
      );
      return await presentRevocation(revocation, services.receipts);
    },
  );
}
