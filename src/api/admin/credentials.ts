import { found } from "../../domain/errors.ts";
import { Type } from "typebox";
import {
  findCredential,
  listPrincipalCredentials,
  listVersions,
  type VersionedCredentialRow,
} from "../../database/repositories/tokens/credentials.ts";
import { findPrincipal } from "../../database/repositories/tokens/principals.ts";
import { makeCredential, NewCredential } from "../new-credential.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, Id, IdempotencyHeaders, IdParams, Nullable, Page, PageQuery } from "../../http/common.ts";
import {
  Credential,
  presentCredential,
  presentVersions,
  SECRET_SHOWN,
  SecretVersions,
} from "../schemas/credentials.ts";
import type { SignetServer } from "../../http/types.ts";
import { principalToChange } from "./to-change.ts";
import { registerMemberRoutes } from "./member-routes.ts";
import type { AdminServices } from "./services.ts";

const OperatorCredential = Type.Object({
  ...Credential.properties,
  tenant_id: Id("tenant"),
  version: Nullable(Type.Integer({ description: "Newest valid version of the secret" })),
});

const CreatedCredential = Type.Object({
  ...OperatorCredential.properties,
  client_secret: Type.Optional(Type.String({ description: SECRET_SHOWN })),
});

const CredentialWithVersions = Type.Object({ ...OperatorCredential.properties, ...SecretVersions });

function presentForOperator(row: VersionedCredentialRow, nowMs: number) {
  return { ...presentCredential(row, nowMs), tenant_id: row.tenant_id, version: row.version };
}

export function registerCredentialRoutes(server: SignetServer, services: AdminServices): void {
  const { commit, certificatesRequired, pepper, rotationRules: rules, clock, randomBytes } = services;

  server.post(
    "/admin/v1/principals/:id/credentials",
    {
      config: { operator: "provision", audits: "credential.created" },
      schema: {
        tags: ["credentials"],
        params: IdParams("principal"),
        headers: IdempotencyHeaders,
        body: NewCredential,
        response: { 201: CreatedCredential },
      },
    },
    async (request, reply) => {
      const { body, params } = request;
      const answer = await commit(request, reply, async (db) => {
        const principal = await principalToChange(db, params.id);
        const tools = { db, pepper, rules, clock, randomBytes, certificatesRequired };
        const { row, clientSecret } = await makeCredential(principal, body, tools);
        const { id, client_id, rotation_mode, san_uri, certificate_thumbprints } = row;
        const details = {
          principal_id: principal.id,
          client_id,
          rotation_mode,
          san_uri,
          certificate_thumbprints,
        };
        return {
          answer: {
            ...presentForOperator(row, clock.now()),
            ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
          },
          entry: { tenant: principal.tenant_id, target: id, details },
        };
      });
      reply.code(201).header("cache-control", "no-store");
      return answer;
    },
  );
  registerReading(server, services);
}

function registerReading(server: SignetServer, { pool, rotationRules: rules, clock }: AdminServices): void {
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
      const rows = await listPrincipalCredentials(pool, principal.id, page);
      return toPage(
        rows.map((row) => presentForOperator(row, clock.now())),
        page,
      );
    },
  );

  registerMemberRoutes(server, {
    noun: "credential",
    path: "credentials",
    parentNoun: "principal",
    parentPath: "principals",
    schema: CredentialWithVersions,
    find: async (id) => {
      const row = await findCredential(pool, id);
      return row && { row, versions: await listVersions(pool, id) };
    },
    parentOf: ({ row }) => row.principal_id,
    present: ({ row, versions }) => {
      const nowMs = clock.now();
      return {
        ...presentForOperator(row, nowMs),
        versions: presentVersions(versions, row, { rules, nowMs }),
      };
    },
  });
}
