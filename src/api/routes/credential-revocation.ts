/** Emergency revocation of a tenant's own credentials, in one call. */
import type { Pool } from "../../database/pool.ts";
import { tenantTransaction } from "../../database/transaction.ts";
import type { RevocationServices } from "../../revocation/receipts.ts";
import { revoke } from "../../revocation/revoke.ts";
import { IdParams } from "../../http/common.ts";
import { presentRevocation, RevocationReceipt, RevocationRequest } from "../schemas/revocations.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "../../http/types.ts";

export function registerCredentialRevocation(
  server: SignetServer,
  pool: Pool,
  services: RevocationServices,
): void {
  server.post(
    "/v1/credentials/:id/revoke",
    operation({
      id: "revokeCredential",
      tag: "credentials",
      // In an emergency the body may be omitted.
      scopes: ["credentials:revoke"],
      optionalBody: true,
      summary: "Revoke a credential everywhere at once",
      description:
        "For emergencies: one call, with an optional body. The credential gets no new tokens, and every edge rejects its existing tokens within 250 ms. The receipt says which processes have applied the revocation, and names its entry in the compliance log. A repeated request returns the same revocation.",
      requestExamples: { "with a reason": { reason: "found in a public repository" } },
      params: IdParams("credential"),
      body: RevocationRequest,
      response: { 200: RevocationReceipt },
    }),
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
