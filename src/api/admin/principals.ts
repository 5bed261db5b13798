import { Type } from "typebox";
import {
  findPrincipal,
  insertPrincipal,
  listPrincipals,
  reprovisionPrincipal,
} from "#database/repositories/tokens/principals.ts";
import { findTenant } from "#database/repositories/tenants.ts";
import { insertNotices, SCOPES_CHANGED } from "#database/repositories/tokens/revocation-notices.ts";
import { newId } from "#domain/ids.ts";
import { found, validationFailed } from "#domain/errors.ts";
import {
  Body,
  Id,
  IdempotencyHeaders,
  IdParams,
  Name,
  OneOf,
  Region,
  Resource,
  Timestamp,
} from "#http/common.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { authorOf } from "./author.ts";
import { principalToChange, tenantToChange } from "./to-change.ts";
import { registerMemberRoutes } from "./member-routes.ts";
import type { AdminServices } from "./services.ts";
import { presenter } from "#http/present.ts";

const Environment = OneOf(["production", "development"]);

const Principal = Resource("Principal", {
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

const NewPrincipal = Body("PrincipalInput", {
  name: Name,
  role_id: Id("role"),
  region: Region,
  environment: Environment,
});

const toPrincipal = presenter(Principal);

export function registerPrincipalRoutes(server: SignetServer, services: AdminServices): void {
  const { pool, commit, clock, randomBytes } = services;

  server.post(
    "/admin/v1/tenants/:id/principals",
    operation({
      id: "createPrincipal",
      tag: "principals",
      home: true,
      operator: "provision",
      audits: "principal.created",
      summary: "Add a principal to a tenant",
      description:
        "A principal is a service that holds credentials. It gets a copy of its role's current scopes.",
      errors: ["INVALID_STATE"],
      requestExamples: {
        "in production": {
          name: "billing",
          role_id: "rol_01jd3c5xq8m2v7k9r4t6w0zy",
          region: "eu",
          environment: "production",
        },
      },
      params: IdParams("tenant"),
      headers: IdempotencyHeaders,
      body: NewPrincipal,
      response: { 201: Principal },
    }),
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
        return { answer: toPrincipal(row), entry: { tenant: tenantId, target: id, details } };
      });
      return await reply.code(201).send(answer);
    },
  );

  registerMemberRoutes(server, {
    noun: "principal",
    parentNoun: "tenant",
    listed: Principal,
    schema: Principal,
    findParent: async (id) => await findTenant(pool, id),
    list: async (id, page) => (await listPrincipals(pool, id, page)).map(toPrincipal),
    find: async (id) => await findPrincipal(pool, id),
    parentOf: (row) => row.tenant_id,
    present: toPrincipal,
  });

  registerReprovision(server, services);
}

/** Registers the route that copies the role's current scopes to the principal; new tokens get them. */
function registerReprovision(server: SignetServer, { commit, clock }: AdminServices): void {
  server.post(
    "/admin/v1/principals/:id/reprovision",
    operation({
      id: "reprovisionPrincipal",
      tag: "principals",
      home: true,
      operator: "provision",
      audits: "principal.reprovisioned",
      summary: "Copy the role's scopes to a principal again",
      description: "New tokens get these scopes; tokens already issued keep theirs until they expire.",
      params: IdParams("principal"),
      headers: IdempotencyHeaders,
      response: { 200: Principal },
    }),
    async (request, reply) =>
      await commit(request, reply, async (db) => {
        await principalToChange(db, request.params.id);
        const nowMs = clock.now();
        const { scopes_before: before, ...row } = found(
          await reprovisionPrincipal(db, request.params.id, nowMs),
          "principal",
        );
        const { id: target, tenant_id } = row;
        const scope = row.scopes.join(" ");
        if (scope !== before.join(" ")) {
          const { actor } = authorOf(request);
          const at = new Date(nowMs);
          await insertNotices(db, [
            { kind: SCOPES_CHANGED, target, tenant_id, actor, at, details: { scope } },
          ]);
        }
        const details = { role_id: row.role_id, before, after: row.scopes };
        return { answer: toPrincipal(row), entry: { tenant: tenant_id, target, details } };
      }),
  );
}
