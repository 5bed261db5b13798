/** A tenant's credentials: lists them with the state of their secrets, creates and replaces them. */
import { Type } from "typebox";
import {
  findTenantCredential,
  listTenantCredentials,
  listVersions,
} from "#database/repositories/tokens/credentials.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { found } from "#domain/errors.ts";
import { TOKEN_LIFETIME_MINUTES } from "#domain/identity.ts";
import { NewCredential } from "../new-credential.ts";
import { createTenantCredential, type TenantCredentialServices } from "../replace-credential.ts";
import { readPage, toPage } from "../pagination.ts";
import { repeatableRequest } from "#http/repeatable.ts";
import { Body, Closed, Id, IdempotencyHeaders, Nullable, Page, PageQuery, Resource } from "#http/common.ts";
import {
  Credential,
  CredentialParams,
  toCredential,
  toSecretVersions,
  SECRET_SHOWN,
  SecretVersions,
} from "../schemas/credentials.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

/** Maximum overlap of a credential with its replacement: 30 days, in seconds. */
const OVERLAP_SECONDS_MAX = 2_592_000;

const TenantCredential = Body("CredentialInput", {
  ...NewCredential.properties,
  principal_id: Type.Optional(Id("principal")),
  replaces: Type.Optional(
    Id(
      "credential",
      `The credential to replace. Its tokens expire up to ${TOKEN_LIFETIME_MINUTES} minutes after it ends. Revoke it too if it is compromised`,
    ),
  ),
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: OVERLAP_SECONDS_MAX,
      description: "How long the replaced credential still gets tokens; 24 hours by default",
    }),
  ),
});

const CredentialWithVersions = Resource("CredentialDetails", { ...Credential.properties, ...SecretVersions });
const CreatedCredential = Resource("CreatedCredential", {
  ...Credential.properties,
  version: Nullable(Type.Integer()),
  client_secret: Type.Optional(Type.String({ description: SECRET_SHOWN })),
});

export function registerCredentialRoutes(server: SignetServer, services: TenantCredentialServices): void {
  registerReading(server, services);
  server.post(
    "/v1/credentials",
    operation({
      id: "createCredential",
      sdk: { name: "credentials.create", optional: true },
      tag: "credentials",
      home: true,
      scopes: ["credentials:write"],
      summary: "Create a credential, or a replacement",
      description:
        "The secret is shown only in this response. Belongs to the caller's own principal unless `principal_id` names another. With `replaces`, the old credential stays valid for `overlap_seconds` and then ends. With mutual TLS, a production principal needs `san_uri` or `certificate_thumbprints`.",
      errors: ["NOT_FOUND", "INVALID_STATE", "LIMIT_EXCEEDED"],
      requestExamples: {
        "for the caller's principal": { san_uri: "spiffe://acme.example/billing" },
        "without a secret": { rotation_mode: "workload", san_uri: "spiffe://acme.example/payouts" },
        "in place of another": { replaces: "crd_01jd3c5xq8m2v7k9r4t6w0zy", overlap_seconds: 86_400 },
      },
      headers: IdempotencyHeaders,
      body: TenantCredential,
      response: { 201: CreatedCredential },
    }),
    async (request, reply) => {
      const { id: requestId, identity, body } = request;
      const { principal_id: principalId, replaces, overlap_seconds: overlapSeconds, ...credential } = body;
      const { answer, replayed } = await createTenantCredential(
        {
          principalId,
          credential,
          replaces,
          overlapSeconds,
          identity,
          requestId,
          // The same key from another principal counts as a different key, so that it never gets this secret.
          repeatable: repeatableRequest(request, identity.tenantId, identity.principalId),
        },
        services,
        ({ row, clientSecret }) => ({
          ...toCredential(row, services.clock.now()),
          version: row.version,
          ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
        }),
      );
      if (replayed) {
        reply.header("idempotent-replayed", "true");
      }
      reply.code(201).header("cache-control", "no-store");
      return answer;
    },
  );
}

function registerReading(server: SignetServer, { pool, rules, clock }: TenantCredentialServices): void {
  server.get(
    "/v1/credentials",
    operation({
      id: "listCredentials",
      sdk: "credentials.list",
      tag: "credentials",
      home: true,
      scopes: ["credentials:read"],
      summary: "List the tenant's credentials",
      description: "Newest first, including revoked credentials, without secrets.",
      querystring: Closed(PageQuery),
      response: { 200: Page(Credential) },
    }),
    async (request) => {
      const { tenantId } = request.identity;
      const page = readPage(request);
      const rows = await tenantTransaction(pool, tenantId, (client) =>
        listTenantCredentials(client, tenantId, page),
      );
      return toPage(
        rows.map((row) => toCredential(row, clock.now())),
        page,
      );
    },
  );

  server.get(
    "/v1/credentials/:id",
    operation({
      id: "getCredential",
      sdk: "credentials.get",
      tag: "credentials",
      home: true,
      scopes: ["credentials:read"],
      summary: "Read a credential with the versions of its secret",
      description:
        "The versions say which secret is in use and when the next rotation is due. `last_used_at` shows whether an old secret is still used.",
      params: CredentialParams,
      response: { 200: CredentialWithVersions },
    }),
    async ({ identity: { tenantId }, params: { id } }) =>
      await tenantTransaction(pool, tenantId, async (client) => {
        const row = found(await findTenantCredential(client, tenantId, id), "credential");
        const nowMs = clock.now();
        const versions = toSecretVersions(await listVersions(client, row.id), row, { rules, nowMs });
        return { ...toCredential(row, nowMs), versions };
      }),
  );
}
