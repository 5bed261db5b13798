/** Suspending tenants and letting them back in. */
import { setTenantState } from "../../database/repositories/tenants.ts";
import { operatorActor } from "../../operators/operator-identity.ts";
import { publishRevocation } from "../../revocation/publish-revocation.ts";
import { IdParams } from "../schemas/common.ts";
import { ReasonGiven } from "../schemas/operators.ts";
import type { SignetServer } from "../types.ts";
import { found } from "./found.ts";
import type { AdminServices } from "./services.ts";
import { presentTenant, Tenant } from "./tenants.ts";

const schema = {
  tags: ["tenants"],
  params: IdParams("tenant"),
  body: ReasonGiven,
  response: { 200: Tenant },
};

/** It ends access for a whole customer, as a revocation does: role security. */
export function registerTenantStateRoutes(server: SignetServer, services: AdminServices): void {
  const { commit } = services;

  server.post(
    "/admin/v1/tenants/:id/suspend",
    { config: { operator: "security", audits: "tenant.suspended", optionalBody: true }, schema },
    async (request) => {
      const { reason } = request.body;
      const row = await commit(request, async (db) => {
        const { row: result, changed } = found(
          await setTenantState(db, request.params.id, "SUSPENDED"),
          "tenant",
        );
        if (!changed) {
          return { result };
        }
        // The state keeps tokens from being issued; those that are out there end with this.
        const actor = operatorActor(request.operator.id);
        const { id: target, id: tenant } = result;
        await publishRevocation(
          db,
          { kind: "tenant", target, tenant, actor, reason, requestId: request.id, anew: true },
          services,
        );
        return { result, entry: { tenant, target, reason } };
      });
      return presentTenant(row);
    },
  );

  server.post(
    "/admin/v1/tenants/:id/resume",
    { config: { operator: "security", audits: "tenant.resumed", optionalBody: true }, schema },
    async (request) => {
      const { reason } = request.body;
      const row = await commit(request, async (db) => {
        const { row: result, changed } = found(
          await setTenantState(db, request.params.id, "ACTIVE"),
          "tenant",
        );
        return changed ? { result, entry: { tenant: result.id, target: result.id, reason } } : { result };
      });
      return presentTenant(row);
    },
  );
}
