/** Suspends and resumes tenants, holds and releases their deliveries, and erases tenants irreversibly. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { appendEntry } from "#compliance/append-entry.ts";
import type { PoolClient } from "#database/pool.ts";
import { findTenant, resumeTenant, type TenantRow } from "#database/repositories/tenants.ts";
import { destroyTenant } from "#database/repositories/tenant-erasure.ts";
import { found, SignetError, validationFailed } from "#domain/errors.ts";
import { holdTenant, releaseTenant } from "#revocation/hold.ts";
import { liftRevocation } from "#revocation/publish-revocation.ts";
import { revoke } from "#revocation/revoke.ts";
import { Body, IdempotencyHeaders, IdParams } from "#http/common.ts";
import { ReasonGiven } from "../schemas/operators.ts";
import { RevocationRequest } from "../schemas/revocations.ts";
import { EXAMPLE_REASON } from "../openapi/examples.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { authorOf } from "./author.ts";
import { tenantToChange } from "./to-change.ts";
import { changeOnce } from "./once.ts";
import type { AdminServices } from "./services.ts";
import { toTenant, Tenant } from "./tenants.ts";

const OPERATION = {
  tag: "tenants",
  home: true,
  operator: "security",
  errors: ["INVALID_STATE"],
  params: IdParams("tenant"),
  headers: IdempotencyHeaders,
  response: { 200: Tenant },
} as const;

const REASON_EXAMPLE = { "with a reason": { reason: EXAMPLE_REASON } };

function byOf(request: Pick<FastifyRequest, "operator" | "id">, reason: string | undefined) {
  return { ...authorOf(request), reason };
}

async function tenantIn(db: PoolClient, id: string): Promise<TenantRow> {
  return found(await findTenant(db, id), "tenant");
}

/**
 * Changes a tenant once per Idempotency-Key, since a late repetition would undo later changes. Returns the changed
 * tenant.
 */
async function changeTenant(
  request: FastifyRequest,
  reply: FastifyReply,
  services: AdminServices,
  change: (db: PoolClient, id: string) => Promise<void>,
): Promise<Static<typeof Tenant>> {
  const { id } = request.params as { id: string };
  return await changeOnce(request, reply, services, async (db) => {
    await change(db, id);
    return toTenant(await tenantIn(db, id));
  });
}

function registerHolds(server: SignetServer, services: AdminServices): void {
  const changes = [
    {
      name: "hold",
      audits: "tenant.held",
      change: holdTenant,
      summary: "Hold a tenant's deliveries",
      description:
        "Nothing is sent to the tenant's endpoints, and their secrets do not rotate. Events are still accepted.",
    },
    {
      name: "release",
      audits: "tenant.released",
      change: releaseTenant,
      summary: "Release a held tenant's deliveries",
      description: "Overdue deliveries are attempted as soon as capacity allows.",
    },
  ] as const;
  for (const { name, change, ...declared } of changes) {
    server.post(
      `/admin/v1/tenants/:id/${name}`,
      operation({
        ...OPERATION,
        ...declared,
        id: `${name}Tenant`,
        optionalBody: true,
        requestExamples: REASON_EXAMPLE,
        body: ReasonGiven,
      }),
      async (request, reply) =>
        await changeTenant(request, reply, services, async (db, id) => {
          await tenantToChange(db, id);
          await change(db, id, byOf(request, request.body.reason), services);
        }),
    );
  }
}

function registerErasure(server: SignetServer, services: AdminServices): void {
  const { revocation, clock } = services;
  server.post(
    "/admin/v1/tenants/:id/erase",
    operation({
      ...OPERATION,
      id: "eraseTenant",
      audits: ["tenant.erased", "tenant.suspended", "tenant.revoked"],
      summary: "Erase a tenant",
      description:
        "Destroys the tenant's data key and all its data; this cannot be undone. `confirm` must be the tenant's name. Rows are deleted in the background: `erasure_completed_at` says when that ended. The compliance log stays.",
      requestExamples: { "by its name": { confirm: "Acme", reason: "End of contract" } },
      body: Body("TenantErasure", { confirm: Type.String({ maxLength: 128 }), ...ReasonGiven.properties }),
    }),
    async (request, reply) => {
      const { confirm, reason } = request.body;
      const by = byOf(request, reason);
      let revoked: Awaited<ReturnType<typeof revoke>> | undefined;
      const answer = await changeTenant(request, reply, services, async (db, id) => {
        const tenant = await tenantIn(db, id);
        if (tenant.state === "ERASED") {
          return;
        }
        confirmErasure(tenant, confirm);
        const target = { noun: "tenant", id, tenantId: null } as const;
        revoked = await revoke(db, target, by, revocation);
        await destroyTenant(db, id, new Date(clock.now()));
        for (const type of tenant.state === "ACTIVE" ? TO_ERASED_FROM_ACTIVE : TO_ERASED) {
          await appendEntry(db, { type, tenant: id, target: id, ...by }, services);
        }
      });
      if (revoked !== undefined) {
        await revocation.receipts.of(revoked);
      }
      return answer;
    },
  );
}

const TO_ERASED = ["tenant.erased"] as const;
const TO_ERASED_FROM_ACTIVE = ["tenant.suspended", ...TO_ERASED] as const;

/** @throws SignetError INVALID_STATE for the platform's own tenant, VALIDATION_FAILED if the name does not match */
function confirmErasure({ name, platform }: TenantRow, confirm: string): void {
  if (platform) {
    throw new SignetError("INVALID_STATE", { detail: "The platform's own tenant cannot be erased." });
  }
  if (confirm !== name) {
    throw validationFailed([{ pointer: "/confirm", code: "mismatch", detail: "is not the tenant's name" }]);
  }
}

/** Registers the state routes. They end or restore a customer's access, so they require the role security. */
export function registerTenantStateRoutes(server: SignetServer, services: AdminServices): void {
  const { revocation } = services;
  registerHolds(server, services);
  registerErasure(server, services);

  server.post(
    "/admin/v1/tenants/:id/suspend",
    operation({
      ...OPERATION,
      id: "suspendTenant",
      audits: ["tenant.suspended", "tenant.revoked", "tenant.held"],
      optionalBody: true,
      summary: "Suspend a tenant's access",
      description:
        "The tenant gets no new tokens, and its existing tokens are rejected within 250 ms. `scope: tenant` also holds its deliveries. `resume` undoes both.",
      requestExamples: { "with a hold": { reason: EXAMPLE_REASON, scope: "tenant" } },
      body: RevocationRequest,
    }),
    async (request, reply) => {
      const { reason, scope } = request.body;
      const by = byOf(request, reason);
      let revoked: Awaited<ReturnType<typeof revoke>> | undefined;
      const answer = await changeTenant(request, reply, services, async (db, id) => {
        const { state } = await tenantToChange(db, id);
        const target = { noun: "tenant", id, tenantId: null } as const;
        revoked = await revoke(db, target, { ...by, hold: scope === "tenant" }, revocation);
        if (state === "ACTIVE") {
          await appendEntry(db, { type: "tenant.suspended", tenant: id, target: id, ...by }, services);
        }
      });
      if (revoked !== undefined) {
        await revocation.receipts.of(revoked);
      }
      return answer;
    },
  );

  server.post(
    "/admin/v1/tenants/:id/resume",
    operation({
      ...OPERATION,
      id: "resumeTenant",
      audits: ["tenant.resumed", "tenant.released"],
      optionalBody: true,
      summary: "Undo a suspension and a hold",
      description:
        "The tenant gets tokens again, and its deliveries continue. Revoked credentials stay revoked.",
      requestExamples: REASON_EXAMPLE,
      body: ReasonGiven,
    }),
    async (request, reply) => {
      const by = byOf(request, request.body.reason);
      let lifted: Awaited<ReturnType<typeof liftRevocation>> | undefined;
      const answer = await changeTenant(request, reply, services, async (db, id) => {
        await tenantToChange(db, id);
        const resumed = await resumeTenant(db, id);
        await releaseTenant(db, id, by, services);
        lifted = resumed ? await liftRevocation(db, id, by, services) : undefined;
      });
      if (lifted !== undefined) {
        // Wait until every process accepts the tenant's new tokens.
        await revocation.receipts.of(lifted);
      }
      return answer;
    },
  );
}
