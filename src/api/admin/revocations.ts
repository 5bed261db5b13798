/** Emergency revocation by operators, of anything that a token names, and by whatever leaked. */
import { Type } from "typebox";
import type { RevocableNoun } from "#database/repositories/tokens/revocable.ts";
import { transaction } from "#database/transaction.ts";
import { operatorActor } from "#tokens/operators/operator-identity.ts";
import { REVOCATION_ENTRIES } from "#revocation/kinds.ts";
import { validationFailed } from "#domain/errors.ts";
import type { Revocation } from "#revocation/publish-revocation.ts";
import { revoke, type RevokedBy } from "#revocation/revoke.ts";
import { findLeak, type FoundLeak } from "#tokens/leaks/find-leak.ts";
import { type Leak, LEAK_KINDS, recognizeLeak } from "#tokens/leaks/recognize-leak.ts";
import { requireTenant, revokeLeak } from "#tokens/leaks/revoke-leak.ts";
import { revokeSigningKey } from "#tokens/signing-keys/revoke.ts";
import { Body, IdParams, OneOf } from "#http/common.ts";
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
import { EXAMPLE_HASH, EXAMPLE_REASON } from "../openapi/examples.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import type { AdminServices } from "./services.ts";

/** What leaked, of any tenant. */
const LeakRequest = Body("Leak", {
  target: LeakTarget,
  kind: Type.Optional(
    OneOf(LEAK_KINDS, {
      description: "Requires this kind; by default the form of `target` decides",
    }),
  ),
  ...RevocationRequest.properties,
});

type OperatorsRevocation = RevokedBy & { readonly requestId: string; readonly hold: boolean };

const LEAK_DESCRIPTION =
  "For emergencies: takes whatever a leak report names, finds the object and revokes it. A client secret is found by its MAC, in any version; a token by its signature, also after its end. A jti and a certificate need not have been seen before, but 43 characters of base64url without `kind` must be a signing key or a registered certificate. A repeated request returns the same revocation.";

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
      home: true,
      operator: "security",
      audits: [REVOCATION_ENTRIES[noun], "tenant.held"],
      optionalBody: true,
      summary: `Revoke a ${noun}`,
      params: noun === "credential" ? CredentialParams : IdParams(noun),
      querystring: RevocationQuery,
      body: RevocationRequest,
      response: { 200: RevocationReceipt },
    }),
    async ({ id: requestId, operator, params: { id }, query: { wait }, body }) => {
      const { reason, scope } = body;
      const by = { actor: operatorActor(operator.id), reason, requestId, hold: scope === "tenant" };
      const revoked = await transaction(
        pool,
        async (db) => await revoke(db, { noun, id, tenantId: null }, by, revocation),
      );
      return await toRevocation(revoked, revocation.receipts, wait);
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

  registerLeakRevocation(server, services);
}

/** Revokes a signing key in its own transaction. As in `signet keys revoke`, a reason is required. */
async function revokeKey(
  services: AdminServices,
  kid: string,
  { actor, requestId, reason, hold }: OperatorsRevocation,
): Promise<Revocation> {
  if (hold) {
    requireTenant(null);
  }
  if (reason === undefined) {
    throw validationFailed([
      { pointer: "/reason", code: "required", detail: "is required to revoke a signing key" },
    ]);
  }
  return (await revokeSigningKey(services, { actor, requestId, kid, reason })).revocation;
}

/** Finds and revokes what leaked, of any tenant. */
async function revokeAny(
  services: AdminServices,
  recognized: Leak,
  by: OperatorsRevocation,
): Promise<{ readonly leak: FoundLeak; readonly revocations: readonly Revocation[] }> {
  const { pool, pepper, keyring, baseUrl: issuer, revocation } = services;
  const done = await transaction(pool, async (db) => {
    const leak = await findLeak(db, recognized, null, { pepper, keyring, issuer, keys: pool });
    return { leak, revocations: leak.kind === "kid" ? [] : await revokeLeak(db, leak, by, revocation) };
  });
  const { leak } = done;
  return leak.kind === "kid" ? { leak, revocations: [await revokeKey(services, leak.kid, by)] } : done;
}

function registerLeakRevocation(server: SignetServer, services: AdminServices): void {
  server.post(
    "/admin/v1/revocations",
    operation({
      id: "revokeTarget",
      tag: "revocations",
      home: true,
      operator: "security",
      audits: [
        REVOCATION_ENTRIES.credential,
        REVOCATION_ENTRIES.jti,
        REVOCATION_ENTRIES.kid,
        REVOCATION_ENTRIES.cert,
        "credential.signing_secret_revoked",
        "tenant.held",
      ],
      summary: "Revoke by what leaked",
      description: LEAK_DESCRIPTION,
      errors: ["NOT_FOUND"],
      requestExamples: {
        "a client id": { target: "cl_7Hq2mVx9KcT4bYw8Rz3Nf6Pd", reason: EXAMPLE_REASON },
        "a certificate": { kind: "cert", target: EXAMPLE_HASH, reason: EXAMPLE_REASON },
        "a token by its jti": { kind: "jti", target: "c2lnbmV0LXRva2VuLWlkMQ", reason: EXAMPLE_REASON },
      },
      querystring: RevocationQuery,
      body: LeakRequest,
      response: { 200: LeakReceipt },
    }),
    async ({ id: requestId, operator, query: { wait }, body: { target, kind, reason, scope } }) => {
      const by = { actor: operatorActor(operator.id), reason, requestId, hold: scope === "tenant" };
      const { leak, revocations } = await revokeAny(services, recognizeLeak(target, kind), by);
      const { receipts } = services.revocation;
      return await toLeak(leak, revocations, { receipts, wait, nowMs: services.clock.now() });
    },
  );
}
