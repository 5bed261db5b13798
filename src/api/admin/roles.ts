import { Type } from "typebox";
import {
  findRole,
  insertRole,
  listRoles,
  lockRole,
  updateRoleScopes,
} from "#database/repositories/tokens/roles.ts";
import { findTenant, type TenantRow } from "#database/repositories/tenants.ts";
import { newId } from "#domain/ids.ts";
import { PLATFORM_SCOPE, SCOPES_MAX, scopeSet } from "#domain/scopes.ts";
import { found, validationFailed } from "#domain/errors.ts";
import { Body, Id, IdempotencyHeaders, IdParams, Name, Resource, Scope, Timestamp } from "#http/common.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { tenantToChange } from "./to-change.ts";
import { registerMemberRoutes } from "./member-routes.ts";
import type { AdminServices } from "./services.ts";
import { presenter } from "#http/present.ts";

const Scopes = Type.Array(Scope, { minItems: 1, maxItems: SCOPES_MAX });

const Role = Resource("Role", {
  id: Id("role"),
  tenant_id: Id("tenant"),
  name: Type.String({ examples: ["publisher"] }),
  scopes: Type.Array(Type.String()),
  created_at: Timestamp,
});

const toRole = presenter(Role);

/** Returns the scopes to store. @throws SignetError VALIDATION_FAILED if only the platform's tenant may have a scope */
function permittedScopes(scopes: readonly string[], tenant: TenantRow): string[] {
  if (scopes.includes(PLATFORM_SCOPE) && !tenant.platform) {
    const pointer = `/scopes/${scopes.indexOf(PLATFORM_SCOPE)}`;
    throw validationFailed([
      { pointer, code: "platform_only", detail: "is only allowed for the platform tenant" },
    ]);
  }
  return scopeSet(scopes);
}

export function registerRoleRoutes(server: SignetServer, services: AdminServices): void {
  const { pool, commit, clock, randomBytes } = services;

  server.post(
    "/admin/v1/tenants/:id/roles",
    operation({
      id: "createRole",
      tag: "roles",
      home: true,
      operator: "provision",
      audits: "role.created",
      summary: "Add a role to a tenant",
      description:
        "A role is a named set of scopes. Only roles of the platform's own tenant may have `events:publish_any`.",
      errors: ["INVALID_STATE"],
      requestExamples: {
        "for webhooks": { name: "publisher", scopes: ["webhooks:read", "webhooks:write", "events:publish"] },
      },
      params: IdParams("tenant"),
      headers: IdempotencyHeaders,
      body: Body("RoleInput", { name: Name, scopes: Scopes }),
      response: { 201: Role },
    }),
    async (request, reply) => {
      const { name, scopes } = request.body;
      const nowMs = clock.now();
      const answer = await commit(request, reply, async (db) => {
        const tenant = await tenantToChange(db, request.params.id);
        const row = await insertRole(db, {
          id: newId("role", nowMs, randomBytes),
          tenantId: tenant.id,
          name,
          scopes: permittedScopes(scopes, tenant),
          nowMs,
        });
        return {
          answer: toRole(row),
          entry: { tenant: tenant.id, target: row.id, details: { scopes: row.scopes } },
        };
      });
      return await reply.code(201).send(answer);
    },
  );

  registerMemberRoutes(server, {
    noun: "role",
    parentNoun: "tenant",
    listed: Role,
    schema: Role,
    findParent: async (id) => await findTenant(pool, id),
    list: async (id, page) => (await listRoles(pool, id, page)).map(toRole),
    find: async (id) => await findRole(pool, id),
    parentOf: (row) => row.tenant_id,
    present: toRole,
  });

  registerRoleUpdate(server, services);
}

/** Registers the route that changes a role. Its principals keep their scopes until they are reprovisioned. */
function registerRoleUpdate(server: SignetServer, { commit }: AdminServices): void {
  server.patch(
    "/admin/v1/roles/:id",
    operation({
      id: "updateRole",
      tag: "roles",
      home: true,
      operator: "provision",
      audits: "role.changed",
      summary: "Replace a role's scopes",
      description: "Principals keep their scopes until they are reprovisioned.",
      requestExamples: { "fewer scopes": { scopes: ["webhooks:read"] } },
      params: IdParams("role"),
      body: Body("RoleChange", { scopes: Scopes }),
      response: { 200: Role },
    }),
    async (request, reply) =>
      await commit(request, reply, async (db) => {
        const role = found(await lockRole(db, request.params.id), "role");
        const tenant = found(await findTenant(db, role.tenant_id), "tenant");
        const scopes = permittedScopes(request.body.scopes, tenant);
        const row = found(await updateRoleScopes(db, role.id, scopes), "role");
        const details = { before: role.scopes, after: row.scopes };
        return { answer: toRole(row), entry: { tenant: tenant.id, target: role.id, details } };
      }),
  );
}
