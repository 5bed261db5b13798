/** Producer secrets, with which credentials sign events: `/v1/credentials/{id}/signing-secret`. */
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import type { By } from "#compliance/append-entry.ts";
import type { Pepper } from "#crypto/pepper.ts";
import type { Pool, PoolClient } from "#database/pool.ts";
import { type CredentialRow, findTenantCredential } from "#database/repositories/tokens/credentials.ts";
import { findTenantPrincipal } from "#database/repositories/tokens/principals.ts";
import {
  listProducerSecrets,
  type ProducerSecretRow,
} from "#database/repositories/tokens/producer-secrets.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { found } from "#domain/errors.ts";
import { IDEMPOTENCY_HOURS } from "#domain/idempotency.ts";
import { scopeViolation } from "#http/bearer-errors.ts";
import {
  isGood,
  createProducerSecret,
  revokeProducerSecretVersions,
  setSignatureRequired,
  type ProducerSecretServices,
} from "#tokens/producers/producer-secrets.ts";
import { operationOf } from "#tokens/guards/authentication.ts";
import { answerOnce, repeatableRequest } from "#http/repeatable.ts";
import {
  Body,
  IdempotencyHeaders,
  IdParams,
  List,
  Nullable,
  OneOf,
  Resource,
  TextLine,
  Timestamp,
} from "#http/common.ts";
import { Credential, toCredential } from "../schemas/credentials.ts";
import type { Receipts } from "#revocation/receipts.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { presenter } from "#http/present.ts";

/** Maximum overlap: a week, in seconds, as for an endpoint's secret. */
const OVERLAP_SECONDS_MAX = 604_800;
const DEFAULT_OVERLAP_SECONDS = 86_400;
const PATH = "/v1/credentials/:id/signing-secret";

export interface ProducerSecretRoutes extends ProducerSecretServices {
  /** Pool with the role signet_api. */
  readonly pool: Pool;
  readonly pepper: Pepper;
  readonly receipts: Pick<Receipts, "of">;
}

const Version = Resource("SigningSecret", {
  version: Type.Integer(),
  state: OneOf(["GOOD", "ENDED", "REVOKED"]),
  fingerprint: Type.String({ description: "First 8 hex digits of the secret's SHA-256" }),
  created_at: Timestamp,
  last_used_at: Nullable(Timestamp),
  ends_at: Nullable(Timestamp),
  revoked_at: Nullable(Timestamp),
});
const Versions = List(Version);
const Made = Resource("CreatedSigningSecret", {
  ...Version.properties,
  secret: Type.String({
    description: `Shown only here, and to a repeated request with the same Idempotency-Key within ${IDEMPOTENCY_HOURS} hours`,
  }),
});

const Rotation = Body("SigningSecretRotation", {
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: OVERLAP_SECONDS_MAX,
      description:
        "How long the previous version stays valid; 24 hours by default, 0 ends all other versions now",
    }),
  ),
});
const Revocation = Body("SigningSecretRevocation", {
  version: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 2_147_483_647,
      description: "The version to revoke; all by default",
    }),
  ),
  reason: Type.Optional(TextLine(256)),
});

const versionOf = presenter(Version);

function toVersion(row: ProducerSecretRow, nowMs: number): Static<typeof Version> {
  const state = isGood(row, new Date(nowMs)) ? "GOOD" : row.revoked_at === null ? "ENDED" : "REVOKED";
  return versionOf({ ...row, state });
}

type TenantRequest = Pick<FastifyRequest, "id" | "identity" | "routeOptions" | "params">;

function byOf({ id, identity }: TenantRequest): By {
  return { actor: `credential:${identity.credentialId}`, requestId: id };
}

async function credentialOf(db: PoolClient, { identity, params }: TenantRequest): Promise<CredentialRow> {
  return found(
    await findTenantCredential(db, identity.tenantId, (params as { id: string }).id),
    "credential",
  );
}

/**
 * Checks that the token has all scopes of the credential's principal. A signing secret grants all of them, so the
 * caller must not gain scopes through it.
 */
async function requireScopes(db: PoolClient, request: FastifyRequest, row: CredentialRow): Promise<void> {
  const { tenantId, scopes: granted } = request.identity;
  const principal = await findTenantPrincipal(db, tenantId, row.principal_id);
  const violation = scopeViolation({
    operation: operationOf(request),
    required: principal?.scopes ?? [],
    granted,
    detail: "The credential's principal has scopes that the token does not have.",
  });
  if (violation !== undefined) {
    throw violation;
  }
}

export function registerProducerSecretRoutes(server: SignetServer, services: ProducerSecretRoutes): void {
  registerMaking(server, services);
  registerVersions(server, services);
  registerRequirement(server, services);
}

function registerVersions(server: SignetServer, services: ProducerSecretRoutes): void {
  const { pool, clock } = services;
  server.get(
    PATH,
    operation({
      id: "listSigningSecrets",
      sdk: "credentials.signingSecrets",
      tag: "credentials",
      home: true,
      scopes: ["credentials:read"],
      summary: "List the versions of a credential's signing secret",
      description: "Newest first, with fingerprints instead of values.",
      params: IdParams("credential"),
      response: { 200: Versions },
    }),
    async (request) =>
      await tenantTransaction(pool, request.identity.tenantId, async (db) => {
        const row = await credentialOf(db, request);
        const versions = await listProducerSecrets(db, row.tenant_id, row.id);
        return { data: versions.map((version) => toVersion(version, clock.now())) };
      }),
  );

  server.post(
    `${PATH}/revoke`,
    operation({
      id: "revokeSigningSecrets",
      sdk: { name: "credentials.revokeSigningSecrets", body: "members", repeat: "safe" },
      tag: "credentials",
      home: true,
      scopes: ["credentials:revoke"],
      // In an emergency the body may be omitted, as for a credential.
      optionalBody: true,
      summary: "Revoke a credential's signing secrets",
      description: "Revokes the version that `version` names; all versions by default.",
      errors: ["INVALID_STATE"],
      requestExamples: { "one version": { version: 1, reason: "shown in a log" } },
      params: IdParams("credential"),
      body: Revocation,
      response: { 200: Versions },
    }),
    async (request) =>
      await tenantTransaction(pool, request.identity.tenantId, async (db) => {
        const { version, reason } = request.body;
        const row = await credentialOf(db, request);
        const change = { version, reason, by: byOf(request) };
        const versions = await revokeProducerSecretVersions(db, row, change, services);
        return { data: versions.map((each) => toVersion(each, clock.now())) };
      }),
  );
}

function registerRequirement(server: SignetServer, services: ProducerSecretRoutes): void {
  const { pool, receipts, clock } = services;
  server.patch(
    "/v1/credentials/:id",
    operation({
      id: "updateCredential",
      sdk: {
        name: "credentials.requireSignature",
        body: "members",
        names: { signature_required: "required" },
      },
      tag: "credentials",
      home: true,
      scopes: ["credentials:write"],
      summary: "Set whether a credential must sign its events",
      description:
        "With `signature_required`, only signed events of this credential are accepted. The credential needs a signing secret first.",
      errors: ["INVALID_STATE"],
      requestExamples: { "signatures only": { signature_required: true } },
      params: IdParams("credential"),
      body: Body("CredentialChange", {
        signature_required: Type.Boolean({ description: "Accepts only signed events of the credential" }),
      }),
      response: { 200: Credential },
    }),
    async (request) => {
      const required = request.body.signature_required;
      const { row, change } = await tenantTransaction(pool, request.identity.tenantId, async (db) => {
        const found = await credentialOf(db, request);
        await requireScopes(db, request, found);
        const settings = { required, by: byOf(request) };
        return { row: found, change: await setSignatureRequired(db, found, settings, services) };
      });
      if (change !== undefined) {
        await receipts.of(change);
      }
      return toCredential({ ...row, signature_required: required }, clock.now());
    },
  );
}

function registerMaking(server: SignetServer, services: ProducerSecretRoutes): void {
  const { pool, clock } = services;
  server.post(
    PATH,
    operation({
      id: "createSigningSecret",
      sdk: { name: "credentials.createSigningSecret", body: "members" },
      tag: "credentials",
      home: true,
      scopes: ["credentials:write"],
      optionalBody: true,
      summary: "Create a credential's signing secret, or its next version",
      description:
        "A producer signs its requests with this secret, instead of using a token or in addition to one. The previous version stays valid for `overlap_seconds`.",
      errors: ["INVALID_STATE"],
      requestExamples: { "with an hour of overlap": { overlap_seconds: 3_600 } },
      params: IdParams("credential"),
      headers: IdempotencyHeaders,
      body: Rotation,
      response: { 201: Made },
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const overlapSeconds = body.overlap_seconds ?? DEFAULT_OVERLAP_SECONDS;
      const repeatable = repeatableRequest(request, identity.tenantId, identity.principalId);
      const { answer, replayed } = await tenantTransaction(pool, identity.tenantId, async (db) => {
        const credential = await credentialOf(db, request);
        await requireScopes(db, request, credential);
        return await answerOnce(db, repeatable, services, async () => {
          const change = { overlapSeconds, by: byOf(request) };
          const { row, secret } = await createProducerSecret(db, credential, change, services);
          return { ...toVersion(row, clock.now()), secret };
        });
      });
      if (replayed) {
        reply.header("idempotent-replayed", "true");
      }
      reply.code(201).header("cache-control", "no-store");
      return answer;
    },
  );
}
