import { Type } from "typebox";
import { issueCredential } from "../../credentials/issue-credential.ts";
import {
  findCredential,
  listPrincipalCredentials,
  type VersionedCredentialRow,
} from "../../database/repositories/credentials.ts";
import { findPrincipal } from "../../database/repositories/principals.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, Id, IdParams, Nullable, Page, PageQuery } from "../schemas/common.ts";
import { Credential, presentCredential } from "../schemas/credentials.ts";
import type { SignetServer } from "../types.ts";
import { found } from "./found.ts";
import { registerMemberRoutes } from "./member-routes.ts";
import type { AdminServices } from "./services.ts";

const THUMBPRINTS_MAX = 8;

const NewCredential = Closed({
  san_uri: Type.Optional(
    Type.String({ pattern: "^spiffe://[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+$", maxLength: 2_048 }),
  ),
  certificate_thumbprints: Type.Optional(
    Type.Array(Type.String({ pattern: "^[0-9a-f]{64}$" }), { maxItems: THUMBPRINTS_MAX, uniqueItems: true }),
  ),
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
  const { pool, pepper, clock, randomBytes } = services;

  server.post(
    "/admin/v1/principals/:id/credentials",
    {
      config: { operator: "provision" },
      schema: {
        tags: ["credentials"],
        params: IdParams("principal"),
        body: NewCredential,
        response: { 201: CreatedCredential },
      },
    },
    async ({ params, body }, reply) => {
      const principal = found(await findPrincipal(pool, params.id), "principal");
      const binding = {
        sanUri: body.san_uri ?? null,
        certificateThumbprints: body.certificate_thumbprints ?? [],
      };
      const { row, clientSecret } = await issueCredential(principal, binding, {
        db: pool,
        pepper,
        clock,
        randomBytes,
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
