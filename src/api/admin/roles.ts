import { Type } from "typebox";
import {
  findRole,
  insertRole,
  listRoles,
  type RoleRow,
  updateRoleScopes,
} from "../../database/repositories/roles.ts";
import { findTenant, type TenantRow } from "../../database/repositories/tenants.ts";
import { newId } from "../../domain/ids.ts";
import { PLATFORM_SCOPE, SCOPE_PATTERN, SCOPES_MAX, scopeSet } from "../../domain/scopes.ts";
import { validationFailed } from "../../errors.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, Id, IdParams, Name, Page, PageQuery, Timestamp } from "../schemas/common.ts";
import type { SignetServer } from "../types.ts";
import { found } from "./found.ts";
import { registerMemberRoutes } from "./member-routes.ts";
import type { AdminServices } from "./services.ts";

const Scopes = Type.Array(Type.String({ pattern: SCOPE_PATTERN }), { minItems: 1, maxItems: SCOPES_MAX });

const Role = Type.Object({
  id: Id("role"),
  tenant_id: Id("tenant"),
  name: Type.String(),
  scopes: Type.Array(Type.String()),
  created_at: Timestamp,
});

function presentRole(row: RoleRow) {
  return { ...row, created_at: row.created_at.toISOString() };
}

/** The scopes as they are kept; the platform's own may be given to its tenant only. */
function permittedScopes(scopes: readonly string[], tenant: TenantRow): string[] {
  if (scopes.includes(PLATFORM_SCOPE) && !tenant.platform) {
    const pointer = `/scopes/${scopes.indexOf(PLATFORM_SCOPE)}`;
    throw validationFailed([
      { pointer, code: "platform_only", detail: "can be held by principals of the platform tenant only" },
    ]);
  }
  return scopeSet(scopes);
}

export function registerRoleRoutes(server: SignetServer, services: AdminServices): void {
  const { pool, clock, randomBytes } = services;

  server.post(
    "/admin/v1/tenants/:id/roles",
    {
      config: { operator: "provision" },
      schema: {
        tags: ["roles"],
        params: IdParams("tenant"),
        body: Closed({ name: Name, scopes: Scopes }),
        response: { 201: Role },
      },
    },
    async ({ params, body }, reply) => {
      const tenant = found(await findTenant(pool, params.id), "tenant");
      const nowMs = clock.now();
      const row = await insertRole(pool, {
        id: newId("role", nowMs, randomBytes),
        tenantId: tenant.id,
        name: body.name,
        scopes: permittedScopes(body.scopes, tenant),
        nowMs,
      });
      return await reply.code(201).send(presentRole(row));
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

/** Changes a role; principals that have it keep their scopes until they are provisioned again. */
function registerRoleUpdate(server: SignetServer, { pool, log }: AdminServices): void {
  server.patch(
    "/admin/v1/roles/:id",
    {
      config: { operator: "provision" },
      schema: {
        tags: ["roles"],
        params: IdParams("role"),
        body: Closed({ scopes: Scopes }),
        response: { 200: Role },
      },
    },
    async ({ id: requestId, params, body }) => {
      const role = found(await findRole(pool, params.id), "role");
      const tenant = found(await findTenant(pool, role.tenant_id), "tenant");
      const scopes = permittedScopes(body.scopes, tenant);
      const row = found(await updateRoleScopes(pool, role.id, scopes), "role");
      log.info(
        { request_id: requestId, role_id: role.id, before: role.scopes, after: scopes },
        "role changed",
      );
      return presentRole(row);
    },
  );
}
