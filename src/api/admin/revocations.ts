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
import { EXAMPLE_HASH, EXAMPLE_REASON } from "../openapi/examples.ts";
import { operation } from "../openapi/operation.ts";
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

const HOLD_EXAMPLE = { reason: EXAMPLE_REASON, scope: "tenant" };

function registerStateRevocation(
  server: SignetServer,
  services: AdminServices,
  noun: RevocableNoun,
  texts: {
    readonly id: string;
    readonly description: string;
    readonly requestExamples: Readonly<Record<string, unknown>>;
  },
): void {
  const { pool, revocation } = services;
  server.post(
    `/admin/v1/${noun}s/:id/revoke`,
    operation({
      ...texts,
      tag: `${noun}s`,
      operator: "security",
      audits: [REVOCATION_ENTRIES[noun], "tenant.held"],
      optionalBody: true,
      summary: `Revoke a ${noun}`,
      params: IdParams(noun),
      body: RevocationRequest,
      response: { 200: RevocationReceipt },
    }),
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
  registerStateRevocation(server, services, "credential", {
    id: "revokeCredential",
    description:
      "For emergencies: the credential gets no new tokens, and every edge rejects its existing tokens within 250 ms. `scope: tenant` also holds the tenant's deliveries.",
    requestExamples: { "with a reason": { reason: EXAMPLE_REASON }, "with a hold": HOLD_EXAMPLE },
  });
  registerStateRevocation(server, services, "principal", {
    id: "revokePrincipal",
    description:
      "For emergencies: every token of its credentials is rejected within 250 ms, and it gets no new ones.",
    requestExamples: { "with a reason": { reason: EXAMPLE_REASON } },
  });
  registerStateRevocation(server, services, "tenant", {
    id: "revokeTenant",
    description:
      "For emergencies: every token of the tenant is rejected within 250 ms, and it gets no new ones. The response is a receipt: the committed revocation, its entry in the compliance log, and how many edges have applied it.",
    requestExamples: { "with a hold": HOLD_EXAMPLE },
  });

  server.post(
    "/admin/v1/revocations",
    operation({
      id: "revokeTarget",
      tag: "revocations",
      operator: "security",
      audits: [REVOCATION_ENTRIES.jti, REVOCATION_ENTRIES.cert],
      summary: "Revoke a token or a certificate",
      description:
        "Names the token by its `jti`, or the certificate by its SHA-256. The service need not have seen either before.",
      requestExamples: {
        "a certificate": { kind: "cert", target: EXAMPLE_HASH, reason: EXAMPLE_REASON },
        "a token": { kind: "jti", target: "c2lnbmV0LXRva2VuLWlkMQ", reason: EXAMPLE_REASON },
      },
      body: TargetRevocation,
      response: { 200: RevocationReceipt },
    }),
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
