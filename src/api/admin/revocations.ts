/** Emergency revocation by operators, of anything that a token names. */
import { Type } from "typebox";
import type { RevocableNoun } from "../../database/repositories/tokens/revocable.ts";
import { transaction } from "../../database/transaction.ts";
import { operatorActor } from "../../tokens/operators/operator-identity.ts";
import { REVOCATION_ENTRIES } from "../../revocation/kinds.ts";
import { publishRevocation } from "../../revocation/publish-revocation.ts";
import { revoke } from "../../revocation/revoke.ts";
import { Thumbprint } from "../schemas/certificates.ts";
import { Closed, Formed, IdParams } from "../../http/common.ts";
import { presentRevocation, Reason, RevocationReceipt, RevocationRequest } from "../schemas/revocations.ts";
import type { SignetServer } from "../../http/types.ts";
import type { AdminServices } from "./services.ts";

/** Targets without a stored state: a token or a client certificate. `signet keys revoke` revokes signing keys. */
const TargetRevocation = Type.Unsafe<{
  readonly kind: "jti" | "cert";
  readonly target: string;
  readonly reason?: string;
}>(
  Type.Union([
    Closed({
      kind: Type.Literal("jti"),
      target: Formed(
        { pattern: "^[A-Za-z0-9_-]{22}$", wanted: "the jti of a token: 22 characters of base64url" },
        { description: "`jti` of the token" },
      ),
      reason: Type.Optional(Reason),
    }),
    Closed({
      kind: Type.Literal("cert"),
      target: Thumbprint,
      reason: Type.Optional(Reason),
    }),
  ]),
);

function registerStateRevocation(
  server: SignetServer,
  services: AdminServices,
  noun: RevocableNoun,
  path: string,
): void {
  const { pool, revocation } = services;
  server.post(
    `/admin/v1/${path}/:id/revoke`,
    {
      config: {
        operator: "security",
        audits: [REVOCATION_ENTRIES[noun], "tenant.held"],
        optionalBody: true,
      },
      schema: {
        tags: [path],
        params: IdParams(noun),
        body: RevocationRequest,
        response: { 200: RevocationReceipt },
      },
    },
    async ({ id: requestId, operator, params: { id }, body }) => {
      const { reason, scope } = body;
      const by = { actor: operatorActor(operator.id), reason, requestId, hold: scope === "tenant" };
      const revoked = await transaction(
        pool,
        async (db) => await revoke(db, { noun, id, tenantId: null }, by, revocation),
      );
      return await presentRevocation(revoked, revocation.receipts);
    },
  );
}

export function registerRevocationRoutes(server: SignetServer, services: AdminServices): void {
  registerStateRevocation(server, services, "credential", "credentials");
  registerStateRevocation(server, services, "principal", "principals");
  registerStateRevocation(server, services, "tenant", "tenants");

  server.post(
    "/admin/v1/revocations",
    {
      config: { operator: "security", audits: [REVOCATION_ENTRIES.jti, REVOCATION_ENTRIES.cert] },
      schema: { tags: ["revocations"], body: TargetRevocation, response: { 200: RevocationReceipt } },
    },
    async ({ id: requestId, operator, body: { kind, target, reason } }) => {
      const actor = operatorActor(operator.id);
      const revoked = await transaction(
        services.pool,
        async (db) =>
          await publishRevocation(db, { kind, target, tenant: null, actor, reason, requestId }, services),
      );
      return await presentRevocation(revoked, services.revocation.receipts);
    },
  );
}
