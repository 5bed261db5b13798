/** Emergency revocation of what belongs to a tenant, in one call: by a credential's id, or by whatever leaked. */
import type { Pool } from "#database/pool.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { noSuch } from "#domain/errors.ts";
import type { RevocationServices } from "#revocation/receipts.ts";
import { revoke } from "#revocation/revoke.ts";
import { Body } from "#http/common.ts";
import { findLeak, type LeakServices } from "#tokens/leaks/find-leak.ts";
import { recognizeLeak } from "#tokens/leaks/recognize-leak.ts";
import { revokeLeak } from "#tokens/leaks/revoke-leak.ts";
import { CredentialParams } from "../schemas/credentials.ts";
import {
  LeakReceipt,
  LeakTarget,
  toLeak,
  toRevocation,
  RevocationQuery,
  RevocationReceipt,
  RevocationRequest,
} from "../schemas/revocations.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

export function registerCredentialRevocation(
  server: SignetServer,
  pool: Pool,
  services: RevocationServices,
): void {
  server.post(
    "/v1/credentials/:id/revoke",
    operation({
      id: "revokeCredential",
      sdk: { name: "credentials.revoke", body: "members", without: ["scope"], repeat: "safe" },
      tag: "credentials",
      home: true,
      // In an emergency the body may be omitted.
      scopes: ["credentials:revoke"],
      optionalBody: true,
      summary: "Revoke a credential everywhere at once",
      description:
        "For emergencies: one call, with an optional body. The credential gets no new tokens, and every edge rejects its existing tokens within 250 ms. The receipt says which processes have applied the revocation, and names its entry in the compliance log. A repeated request returns the same revocation.",
      requestExamples: { "with a reason": { reason: "found in a public repository" } },
      params: CredentialParams,
      querystring: RevocationQuery,
      body: RevocationRequest,
      response: { 200: RevocationReceipt },
    }),
    async ({ id: requestId, identity, params: { id }, query: { wait }, body }) => {
      const { tenantId } = identity;
      const { reason, scope } = body;
      const actor = `credential:${identity.credentialId}` as const;
      const by = { actor, reason, requestId, hold: scope === "tenant" };
      const revocation = await tenantTransaction(
        pool,
        tenantId,
        async (db) => await revoke(db, { noun: "credential", id, tenantId }, by, services),
      );
      return await toRevocation(revocation, services.receipts, wait);
    },
  );
}

const LeakRequest = Body("Leak", { target: LeakTarget, ...RevocationRequest.properties });

export interface LeakRevocationServices {
  /** Role signet_api. */
  readonly pool: Pool;
  /** Services that find what leaked. */
  readonly leaks: LeakServices;
  readonly revocation: RevocationServices;
}

/** Registers the revocation of whatever leaked, if it belongs to the tenant. */
export function registerLeakRevocation(
  server: SignetServer,
  { pool, leaks, revocation }: LeakRevocationServices,
): void {
  server.post(
    "/v1/revocations",
    operation({
      id: "revokeLeak",
      sdk: { name: "credentials.revokeLeaked", body: "members", without: ["scope"] },
      tag: "credentials",
      home: true,
      scopes: ["credentials:revoke"],
      summary: "Revoke by what leaked",
      description:
        "For emergencies: takes what a leak report names, finds the tenant's object and revokes it. A client secret is found by its MAC, in any version; a signing secret ends in the version that leaked; a whole token ends alone, also by its signature after its end; a certificate ends the tenant's credentials that name it. A jti alone does not prove whose token it is. Objects of other tenants get the same 404 as unknown ones.",
      errors: ["NOT_FOUND", "LIMIT_EXCEEDED"],
      requestExamples: {
        "a client id": { target: "cl_7Hq2mVx9KcT4bYw8Rz3Nf6Pd", reason: "found in a public repository" },
      },
      querystring: RevocationQuery,
      body: LeakRequest,
      response: { 200: LeakReceipt },
    }),
    async ({ id: requestId, identity, query: { wait }, body: { target, reason, scope } }) => {
      const { tenantId, credentialId } = identity;
      const by = {
        actor: `credential:${credentialId}` as const,
        reason,
        requestId,
        hold: scope === "tenant",
      };
      const recognized = recognizeLeak(target);
      const { leak, revocations } = await tenantTransaction(pool, tenantId, async (db) => {
        const leak = await findLeak(db, recognized, tenantId, leaks);
        if (leak.kind === "kid") {
          throw noSuch("signing key");
        }
        return { leak, revocations: await revokeLeak(db, leak, by, revocation) };
      });
      return await toLeak(leak, revocations, {
        receipts: revocation.receipts,
        wait,
        nowMs: revocation.clock.now(),
      });
    },
  );
}
