/** Suspending tenants and letting them back in. */
import { setTenantState } from "../../database/repositories/tenants.ts";
import { operatorActor } from "../../operators/operator-identity.ts";
import { publishRevocation } from "../../revocation/publish-revocation.ts";
import { IdempotencyHeaders, IdParams } from "../schemas/common.ts";
import { ReasonGiven } from "../schemas/operators.ts";
import type { SignetServer } from "../types.ts";
import { found } from "./found.ts";
import type { AdminServices } from "./services.ts";
import { presentTenant, Tenant } from "./tenants.ts";

const schema = {
  tags: ["tenants"],
  params: IdParams("tenant"),
  headers: IdempotencyHeaders,
  body: ReasonGiven,
  response: { 200: Tenant },
};

/** It ends access for a whole customer, as a revocation does: role security. */
export function registerTenantStateRoutes(server: SignetServer, services: AdminServices): void {
  const { commit } = services;

  server.post(
    "/admin/v1/tenants/:id/suspend",
    { config: { operator: "security", audits: "tenant.suspended", optionalBody: true }, schema },
    async (request, reply) => {
      const { reason } = request.body;
      return await commit(request, reply, async (db) => {
        const { row, changed } = found(await setTenantState(db, request.params.id, "SUSPENDED"), "tenant");
        if (!changed) {
          return { answer: presentTenant(row) };
        }
        // The state keeps tokens from being issued; those that are out there end with this.
        const actor = operatorActor(request.operator.id);
        const { id: target, id: tenant } = row;
        await publishRevocation(
          db,
          { kind: "tenant", target, tenant, actor, reason, requestId: request.id, anew: true },
          services,
        );
        return { answer: presentTenant(row), entry: { tenant, target, reason } };
      });
    },
  );

  server.post(
    "/admin/v1/tenants/:id/resume",
    { config: { operator: "security", audits: "tenant.resumed", optionalBody: true }, schema },
    async (request, reply) => {
      const { reason } = request.body;
      return await commit(request, reply, async (db) => {
        const { row, changed } = found(await setTenantState(db, request.params.id, "ACTIVE"), "tenant");
        const answer = presentTenant(row);
        return changed ? { answer, entry: { tenant: row.id, target: row.id, reason } } : { answer };
      });
    },
  );
}
