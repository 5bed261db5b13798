/** Suspending tenants and holding their deliveries, and undoing both. */
import type { FastifyRequest } from "fastify";
import { appendEntry } from "../../compliance/append-entry.ts";
import type { PoolClient } from "../../database/pool.ts";
import { findTenant, setTenantState, type TenantRow } from "../../database/repositories/tenants.ts";
import { transaction } from "../../database/transaction.ts";
import { holdTenant, releaseTenant } from "../../revocation/hold.ts";
import { liftRevocation } from "../../revocation/lift.ts";
import { revoke } from "../../revocation/revoke.ts";
import { IdParams } from "../schemas/common.ts";
import { ReasonGiven } from "../schemas/operators.ts";
import { RevocationRequest } from "../schemas/revocations.ts";
import type { SignetServer } from "../types.ts";
import { authorOf } from "./author.ts";
import { found } from "./found.ts";
import type { AdminServices } from "./services.ts";
import { presentTenant, Tenant } from "./tenants.ts";

const common = { tags: ["tenants"], params: IdParams("tenant"), response: { 200: Tenant } };

function byOf(request: Pick<FastifyRequest, "operator" | "id">, reason: string | undefined) {
  return { ...authorOf(request), reason };
}

async function tenantIn(db: PoolClient, id: string): Promise<TenantRow> {
  return found(await findTenant(db, id), "tenant");
}

function registerHolds(server: SignetServer, { pool, ...services }: AdminServices): void {
  const changes = [
    ["hold", "tenant.held", holdTenant],
    ["release", "tenant.released", releaseTenant],
  ] as const;
  for (const [what, audits, change] of changes) {
    server.post(
      `/admin/v1/tenants/:id/${what}`,
      {
        config: { operator: "security", audits, optionalBody: true },
        schema: { ...common, body: ReasonGiven },
      },
      async (request) => {
        const { id } = request.params;
        const row = await transaction(pool, async (db) => {
          await tenantIn(db, id);
          await change(db, id, byOf(request, request.body.reason), services);
          return await tenantIn(db, id);
        });
        return presentTenant(row);
      },
    );
  }
}

/** They end or give back access for a whole customer, as revocations do: role security. */
export function registerTenantStateRoutes(server: SignetServer, services: AdminServices): void {
  const { pool, revocation } = services;
  registerHolds(server, services);

  server.post(
    "/admin/v1/tenants/:id/suspend",
    {
      config: {
        operator: "security",
        audits: ["tenant.suspended", "tenant.revoked", "tenant.held"],
        optionalBody: true,
      },
      schema: { ...common, body: RevocationRequest },
    },
    async (request) => {
      const { id } = request.params;
      const { reason, scope } = request.body;
      const by = byOf(request, reason);
      const { row, revoked } = await transaction(pool, async (db) => {
        const { state } = await tenantIn(db, id);
        const target = { noun: "tenant", id, tenantId: null } as const;
        const published = await revoke(db, target, { ...by, hold: scope === "tenant" }, revocation);
        if (state === "ACTIVE") {
          await appendEntry(db, { type: "tenant.suspended", tenant: id, target: id, ...by }, services);
        }
        return { row: await tenantIn(db, id), revoked: published };
      });
      await revocation.receipts.of(revoked);
      return presentTenant(row);
    },
  );

  server.post(
    "/admin/v1/tenants/:id/resume",
    {
      config: { operator: "security", audits: ["tenant.resumed", "tenant.released"], optionalBody: true },
      schema: { ...common, body: ReasonGiven },
    },
    async (request) => {
      const { id } = request.params;
      const by = byOf(request, request.body.reason);
      const { row, lifted } = await transaction(pool, async (db) => {
        const { changed } = found(await setTenantState(db, id, "ACTIVE"), "tenant");
        await releaseTenant(db, id, by, services);
        const resumed = await tenantIn(db, id);
        return { row: resumed, lifted: changed ? await liftRevocation(db, id, by, services) : undefined };
      });
      if (lifted !== undefined) {
        // The tokens that it gets from here on are good wherever they are shown.
        await revocation.receipts.of(lifted);
      }
      return presentTenant(row);
    },
  );
}
