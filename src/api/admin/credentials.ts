import { Type } from "typebox";
import { issueCredential } from "../../credentials/issue-credential.ts";
import {
  findCredential,
  listPrincipalCredentials,
  type VersionedCredentialRow,
} from "../../database/repositories/credentials.ts";
import { findPrincipal } from "../../database/repositories/principals.ts";
import { readPage, toPage } from "../pagination.ts";
import { SanUri, Thumbprints } from "../schemas/certificates.ts";
import { Closed, Id, IdParams, Nullable, Page, PageQuery } from "../schemas/common.ts";
import { Credential, presentCredential } from "../schemas/credentials.ts";
import type { SignetServer } from "../types.ts";
import { found } from "./found.ts";
import { registerMemberRoutes } from "./member-routes.ts";
import type { AdminServices } from "./services.ts";

const NewCredential = Closed({
  san_uri: Type.Optional(SanUri),
  certificate_thumbprints: Type.Optional(Thumbprints),
});

const OperatorCredential = Type.Object({
  ...Credential.properties,
  tenant_id: Id("tenant"),
  version: Nullable(Type.Integer({ description: "Newest version of the secret that is good" })),
});

const CreatedCredential = Type.Object({
  ...OperatorCredential.properties,
  client_secret: Type.String({ description: "Shown here only" }),
});

function presentForOperator(row: VersionedCredentialRow) {
  return { ...presentCredential(row), tenant_id: row.tenant_id, version: row.version };
}

export function registerCredentialRoutes(server: SignetServer, services: AdminServices): void {
  const { pool, commit, pepper, rotationRules: rules, clock, randomBytes } = services;

  server.post(
    "/admin/v1/principals/:id/credentials",
    {
      config: { operator: "provision", audits: "credential.created" },
      schema: {
        tags: ["credentials"],
        params: IdParams("principal"),
        body: NewCredential,
        response: { 201: CreatedCredential },
      },
    },
    async (request, reply) => {
      const { san_uri: sanUri = null, certificate_thumbprints: certificateThumbprints = [] } = request.body;
      const { row, clientSecret } = await commit(request, async (db) => {
        const principal = found(await findPrincipal(db, request.params.id), "principal");
        const tools = { db, pepper, rules, clock, randomBytes };
        const result = await issueCredential(principal, { sanUri, certificateThumbprints }, tools);
        const { id, client_id, rotation_mode } = result.row;
        const details = {
          principal_id: principal.id,
          client_id,
          rotation_mode,
          san_uri: sanUri,
          certificate_thumbprints: certificateThumbprints,
        };
        return { result, entry: { tenant: principal.tenant_id, target: id, details } };
      });
      reply.code(201).header("cache-control", "no-store");
      return { ...presentForOperator(row), client_secret: clientSecret };
    },
  );

  server.get(
    "/admin/v1/principals/:id/credentials",
    {
      config: { operator: "read" },
      schema: {
        tags: ["credentials"],
        params: IdParams("principal"),
        querystring: Closed(PageQuery),
        response: { 200: Page(OperatorCredential) },
      },
    },
    async (request) => {
      const principal = found(await findPrincipal(pool, request.params.id), "principal");
      const page = readPage(request);
      return toPage((await listPrincipalCredentials(pool, principal.id, page)).map(presentForOperator), page);
    },
  );

  registerMemberRoutes(server, {
    noun: "credential",
    path: "credentials",
    parentNoun: "principal",
    parentPath: "principals",
    schema: OperatorCredential,
    find: async (id) => await findCredential(pool, id),
    parentOf: (row) => row.principal_id,
    present: presentForOperator,
  });
}
