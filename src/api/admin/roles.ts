import { Type } from "typebox";
import {
  findRole,
  insertRole,
  listRoles,
  lockRole,
  type RoleRow,
  updateRoleScopes,
} from "../../database/repositories/tokens/roles.ts";
import { findTenant, type TenantRow } from "../../database/repositories/tenants.ts";
import { newId } from "../../domain/ids.ts";
import { PLATFORM_SCOPE, SCOPES_MAX, scopeSet } from "../../domain/scopes.ts";
import { found, validationFailed } from "../../domain/errors.ts";
import { readPage, toPage } from "../pagination.ts";
import {
  Closed,
  Id,
  IdempotencyHeaders,
  IdParams,
  Name,
  Page,
  PageQuery,
  Scope,
  Timestamp,
} from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";
import { tenantToChange } from "./to-change.ts";
import { registerMemberRoutes } from "./member-routes.ts";
import type { AdminServices } from "./services.ts";

const Scopes = Type.Array(Scope, { minItems: 1, maxItems: SCOPES_MAX });

const Role = Type.Object({
  id: Id("role"),
  tenant_id: Id("tenant"),
  name: Type.String({ examples: ["publisher"] }),
  scopes: Type.Array(Type.String()),
  created_at: Timestamp,
});

function presentRole(row: RoleRow) {
  return { ...row, created_at: row.created_at.toISOString() };
}

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
    {
      config: { operator: "provision", audits: "role.created" },
      schema: {
        tags: ["roles"],
        params: IdParams("tenant"),
        headers: IdempotencyHeaders,
        body: Closed({ name: Name, scopes: Scopes }),
        response: { 201: Role },
      },
    },
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
          answer: presentRole(row),
          entry: { tenant: tenant.id, target: row.id, details: { scopes: row.scopes } },
        };
      });
      return await reply.code(201).send(answer);
    },
  );

  server.get(
    "/admin/v1/tenants/:id/roles",
    {
      config: { operator: "read" },
      schema: {
        tags: ["roles"],
        params: IdParams("tenant"),
        querystring: Closed(PageQuery),
        response: { 200: Page(Role) },
      },
    },
    async (request) => {
      const tenant = found(await findTenant(pool, request.params.id), "tenant");
      const page = readPage(request);
      return toPage((await listRoles(pool, tenant.id, page)).map(presentRole), page);
    },
  );

  registerMemberRoutes(server, {
    noun: "role",
    path: "roles",
    parentNoun: "tenant",
    parentPath: "tenants",
    schema: Role,
    find: async (id) => await findRole(pool, id),
    parentOf: (row) => row.tenant_id,
    present: presentRole,
  });

  registerRoleUpdate(server, services);
}

/** Registers the route that changes a role. Its principals keep their scopes until they are reprovisioned. */
function registerRoleUpdate(server: SignetServer, { commit }: AdminServices): void {
  server.patch(
    "/admin/v1/roles/:id",
    {
      config: { operator: "provision", audits: "role.changed" },
      schema: {
        tags: ["roles"],
        params: IdParams("role"),
        body: Closed({ scopes: Scopes }),
        response: { 200: Role },
      },
    },
    async (request, reply) =>
      await commit(request, reply, async (db) => {
        const role = found(await lockRole(db, request.params.id), "role");
        const tenant = found(await findTenant(db, role.tenant_id), "tenant");
        const scopes = permittedScopes(request.body.scopes, tenant);
        const row = found(await updateRoleScopes(db, role.id, scopes), "role");
        const details = { before: role.scopes, after: row.scopes };
        return { answer: presentRole(row), entry: { tenant: tenant.id, target: role.id, details } };
      }),
  );
}
