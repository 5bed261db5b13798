import { Type } from "typebox";
import {
  findCredential,
  listPrincipalCredentials,
  listVersions,
  type VersionedCredentialRow,
} from "#database/repositories/tokens/credentials.ts";
import { findPrincipal } from "#database/repositories/tokens/principals.ts";
import { makeCredential, NewCredential, noticeCreated } from "../new-credential.ts";
import { Id, IdempotencyHeaders, IdParams, Nullable, Resource } from "#http/common.ts";
import {
  Credential,
  CredentialParams,
  toCredential,
  toSecretVersions,
  SECRET_SHOWN,
  SecretVersions,
} from "../schemas/credentials.ts";
import { EXAMPLE_HASH } from "../openapi/examples.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { authorOf } from "./author.ts";
import { principalToChange } from "./to-change.ts";
import { registerMemberRoutes } from "./member-routes.ts";
import type { AdminServices } from "./services.ts";

const OperatorCredential = Resource("Credential", {
  ...Credential.properties,
  tenant_id: Id("tenant"),
  version: Nullable(Type.Integer({ description: "Newest valid version of the secret" })),
});

const CreatedCredential = Resource("CreatedCredential", {
  ...OperatorCredential.properties,
  client_secret: Type.Optional(Type.String({ description: SECRET_SHOWN })),
});

const CredentialWithVersions = Resource("CredentialDetails", {
  ...OperatorCredential.properties,
  ...SecretVersions,
});

function toOperatorCredential(row: VersionedCredentialRow, nowMs: number) {
  return { ...toCredential(row, nowMs), tenant_id: row.tenant_id, version: row.version };
}

export function registerCredentialRoutes(server: SignetServer, services: AdminServices): void {
  const {
    commit,
    certificatesRequired,
    assertionAlgorithms,
    pepper,
    rotationRules: rules,
    clock,
    randomBytes,
  } = services;

  server.post(
    "/admin/v1/principals/:id/credentials",
    operation({
      id: "createCredential",
      tag: "credentials",
      home: true,
      operator: "provision",
      audits: "credential.created",
      summary: "Add a credential to a principal",
      description:
        "The secret is shown only in this response. In production with mutual TLS, a credential must name the client's certificate. A `workload` has no secret: it authenticates with its certificate or its keys.",
      errors: ["INVALID_STATE"],
      requestExamples: {
        "with a certificate": { san_uri: "spiffe://acme.example/billing" },
        "a workload": { rotation_mode: "workload", certificate_thumbprints: [EXAMPLE_HASH] },
      },
      params: IdParams("principal"),
      headers: IdempotencyHeaders,
      body: NewCredential,
      response: { 201: CreatedCredential },
    }),
    async (request, reply) => {
      const { body, params } = request;
      const answer = await commit(request, reply, async (db) => {
        const principal = await principalToChange(db, params.id);
        const tools = { db, pepper, rules, clock, randomBytes, certificatesRequired, assertionAlgorithms };
        const { row, clientSecret } = await makeCredential(principal, body, tools);
        await noticeCreated(db, row, authorOf(request));
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
            ...toOperatorCredential(row, clock.now()),
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
  registerMemberRoutes(server, {
    noun: "credential",
    parentNoun: "principal",
    note: " It never includes the secret.",
    params: CredentialParams,
    listed: OperatorCredential,
    schema: CredentialWithVersions,
    findParent: async (id) => await findPrincipal(pool, id),
    list: async (id, page) =>
      (await listPrincipalCredentials(pool, id, page)).map((row) => toOperatorCredential(row, clock.now())),
    find: async (id) => {
      const row = await findCredential(pool, id);
      return row && { row, versions: await listVersions(pool, row.id) };
    },
    parentOf: ({ row }) => row.principal_id,
    present: ({ row, versions }) => {
      const nowMs = clock.now();
      return {
        ...toOperatorCredential(row, nowMs),
        versions: toSecretVersions(versions, row, { rules, nowMs }),
      };
    },
  });
}
