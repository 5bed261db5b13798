import { found } from "#domain/errors.ts";
import { Type } from "typebox";
import { findTenant, insertTenant, listTenants, TENANT_STATES } from "#database/repositories/tenants.ts";
import { newId } from "#domain/ids.ts";
import { readPage, toPage } from "../pagination.ts";
import {
  Body,
  Closed,
  Id,
  IdempotencyHeaders,
  IdParams,
  Name,
  Nullable,
  OneOf,
  Page,
  PageQuery,
  Region,
  Resource,
  TextLine,
  Timestamp,
} from "#http/common.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import type { AdminServices } from "./services.ts";
import { presenter } from "#http/present.ts";

export const Tenant = Resource("Tenant", {
  id: Id("tenant"),
  name: Type.String({ examples: ["Acme"] }),
  region: Type.String(),
  state: OneOf(TENANT_STATES),
  platform: Type.Boolean(),
  held_at: Nullable(
    Type.String({
      format: "date-time",
      description:
        "Time of the hold, since which its deliveries wait and its endpoints' secrets do not rotate",
    }),
  ),
  erased_at: Nullable(
    Type.String({
      format: "date-time",
      description: "Time of the erasure, since which its data cannot be read",
    }),
  ),
  erasure_completed_at: Nullable(
    Type.String({
      format: "date-time",
      description: "Time when all its data except this record was deleted",
    }),
  ),
  created_at: Timestamp,
});

const NewTenant = Body("TenantInput", {
  name: Name,
  region: Region,
  platform: Type.Optional(Type.Boolean()),
});

export const toTenant = presenter(Tenant);

export function registerTenantRoutes(server: SignetServer, services: AdminServices): void {
  const { pool, commit, keyring, clock, randomBytes } = services;

  server.post(
    "/admin/v1/tenants",
    operation({
      id: "createTenant",
      tag: "tenants",
      home: true,
      operator: "provision",
      audits: "tenant.created",
      summary: "Add a tenant",
      description:
        "A tenant is a customer of the platform and has its own data key. `platform` marks the tenant of the platform's own services, which may publish for others; there is at most one.",
      requestExamples: { "a customer": { name: "Acme", region: "eu" } },
      headers: IdempotencyHeaders,
      body: NewTenant,
      response: { 201: Tenant },
    }),
    async (request, reply) => {
      const { name, region, platform = false } = request.body;
      const nowMs = clock.now();
      const id = newId("tenant", nowMs, randomBytes);
      const dataKey = await keyring.newTenantDataKey(id);
      const answer = await commit(request, reply, async (db) => {
        const row = await insertTenant(db, { id, name, region, platform, dataKey, nowMs });
        return {
          answer: toTenant(row),
          entry: { tenant: id, target: id, details: { region, platform } },
        };
      });
      return await reply.code(201).send(answer);
    },
  );

  server.get(
    "/admin/v1/tenants",
    operation({
      id: "listTenants",
      tag: "tenants",
      operator: "read",
      summary: "List tenants",
      description: "Newest first; erased tenants stay in the list. `name` selects by a part of the name.",
      querystring: Closed({ name: Type.Optional(TextLine(128)), ...PageQuery }),
      response: { 200: Page(Tenant) },
    }),
    async (request) => {
      const page = readPage(request);
      return toPage((await listTenants(pool, page, request.query.name)).map(toTenant), page);
    },
  );

  server.get(
    "/admin/v1/tenants/:id",
    operation({
      id: "getTenant",
      tag: "tenants",
      operator: "read",
      summary: "Read a tenant",
      description:
        "`state` says whether the tenant gets tokens. `held_at` says since when its deliveries are held.",
      params: IdParams("tenant"),
      response: { 200: Tenant },
    }),
    async ({ params }) => toTenant(found(await findTenant(pool, params.id), "tenant")),
  );
}
