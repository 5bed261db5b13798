import { Type } from "typebox";
import {
  findPrincipal,
  insertPrincipal,
  listPrincipals,
  type PrincipalRow,
  reprovisionPrincipal,
} from "../../database/repositories/tokens/principals.ts";
import { findTenant } from "../../database/repositories/tenants.ts";
import { newId } from "../../domain/ids.ts";
import { found, validationFailed } from "../../domain/errors.ts";
import { readPage, toPage } from "../pagination.ts";
import {
  Closed,
  Id,
  IdempotencyHeaders,
  IdParams,
  Name,
  OneOf,
  Page,
  PageQuery,
  Region,
  Timestamp,
} from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";
import { principalToChange, tenantToChange } from "./to-change.ts";
import { registerMemberRoutes } from "./member-routes.ts";
import type { AdminServices } from "./services.ts";

const Environment = OneOf(["production", "development"]);

const Principal = Type.Object({
  id: Id("principal"),
  tenant_id: Id("tenant"),
  role_id: Id("role"),
  name: Type.String({ examples: ["billing"] }),
  region: Type.String(),
  environment: Environment,
  scopes: Type.Array(Type.String()),
  state: OneOf(["ACTIVE", "REVOKED"]),
  provisioned_at: Timestamp,
  created_at: Timestamp,
});

const NewPrincipal = Closed({ name: Name, role_id: Id("role"), region: Region, environment: Environment });

function presentPrincipal(row: PrincipalRow) {
  return {
    ...row,
    provisioned_at: row.provisioned_at.toISOString(),
    created_at: row.created_at.toISOString(),
  };
}

export function registerPrincipalRoutes(server: SignetServer, services: AdminServices): void {
  const { pool, commit, clock, randomBytes } = services;

  server.post(
    "/admin/v1/tenants/:id/principals",
    {
      config: { operator: "provision", audits: "principal.created" },
      schema: {
        tags: ["principals"],
        params: IdParams("tenant"),
        headers: IdempotencyHeaders,
        body: NewPrincipal,
        response: { 201: Principal },
      },
    },
    async (request, reply) => {
      const { name, role_id: roleId, region, environment } = request.body;
      const nowMs = clock.now();
      const answer = await commit(request, reply, async (db) => {
        const { id: tenantId } = await tenantToChange(db, request.params.id);
        const id = newId("principal", nowMs, randomBytes);
        const row = await insertPrincipal(db, { id, tenantId, roleId, name, region, environment, nowMs });
        if (row === undefined) {
          throw validationFailed([
            { pointer: "/role_id", code: "not_found", detail: "is not a role of this tenant" },
          ]);
        }
        const details = { role_id: roleId, environment, scopes: row.scopes };
        return { answer: presentPrincipal(row), entry: { tenant: tenantId, target: id, details } };
      });
      return await reply.code(201).send(answer);
    },
  );

  server.get(
    "/admin/v1/tenants/:id/principals",
    {
      config: { operator: "read" },
      schema: {
        tags: ["principals"],
        params: IdParams("tenant"),
        querystring: Closed(PageQuery),
        response: { 200: Page(Principal) },
      },
    },
    async (request) => {
      const tenant = found(await findTenant(pool, request.params.id), "tenant");
      const page = readPage(request);
      return toPage((await listPrincipals(pool, tenant.id, page)).map(presentPrincipal), page);
    },
  );

  registerMemberRoutes(server, {
    noun: "principal",
    path: "principals",
    parentNoun: "tenant",
    parentPath: "tenants",
    schema: Principal,
    find: async (id) => await findPrincipal(pool, id),
    parentOf: (row) => row.tenant_id,
    present: presentPrincipal,
  });

  registerReprovision(server, services);
}

/** Registers the route that copies the role's current scopes to the principal; new tokens get them. */
function registerReprovision(server: SignetServer, { commit, clock }: AdminServices): void {
  server.post(
    "/admin/v1/principals/:id/reprovision",
    {
      config: { operator: "provision", audits: "principal.reprovisioned" },
      schema: {
        tags: ["principals"],
        params: IdParams("principal"),
        headers: IdempotencyHeaders,
        response: { 200: Principal },
      },
    },
    async (request, reply) =>
      await commit(request, reply, async (db) => {
        await principalToChange(db, request.params.id);
        const { scopes_before: before, ...row } = found(
          await reprovisionPrincipal(db, request.params.id, clock.now()),
          "principal",
        );
        const details = { role_id: row.role_id, before, after: row.scopes };
        return { answer: presentPrincipal(row), entry: { tenant: row.tenant_id, target: row.id, details } };
      }),
  );
}
