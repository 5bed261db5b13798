/** The secret of an endpoint: state, settings and rotation (security decisions F). */
import type { Pepper } from "#crypto/pepper.ts";
import type { Pool } from "#database/pool.ts";
import { tenantTransaction } from "#database/transaction.ts";
import {
  activateSecret,
  type EndpointSecretServices,
  rotateSecret,
  secretsOf,
} from "#webhooks/endpoints/endpoint-secrets.ts";
import { changeSecretSettings } from "#webhooks/endpoints/secret-settings.ts";
import { callerOf } from "#http/caller.ts";
import { answerOnce, repeatableRequest } from "#http/repeatable.ts";
import { IdempotencyHeaders, IdParams } from "#http/common.ts";
import {
  EndpointSecrets,
  toEndpointSecrets,
  toEndpointSecretVersion,
  RotatedEndpointSecret,
  SecretRotation,
  SecretSettings,
} from "../schemas/endpoint-secrets.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

const PATH = "/v1/webhooks/endpoints/:id/secret";
/** The schema's default overlap. A POST without a body counts as one with an empty body. */
const DEFAULT_OVERLAP_SECONDS = 86_400;

export interface EndpointSecretRouteServices extends EndpointSecretServices {
  /** Pool with the role signet_api. */
  readonly api: Pool;
  readonly pepper: Pepper;
}

export function registerEndpointSecretRoutes(
  server: SignetServer,
  services: EndpointSecretRouteServices,
): void {
  registerReading(server, services);
  registerSettings(server, services);
  registerRotation(server, services);
  registerActivation(server, services);
}

function registerReading(server: SignetServer, services: EndpointSecretRouteServices): void {
  const { api, clock } = services;
  server.get(
    PATH,
    operation({
      id: "listEndpointSecrets",
      sdk: { name: "endpoints.secrets.list", go: "Secrets" },
      tag: "endpoints",
      scopes: ["webhooks:read"],
      summary: "List the versions of an endpoint's secret",
      description: "Newest first, with fingerprints instead of values.",
      params: IdParams("endpoint"),
      response: { 200: EndpointSecrets },
    }),
    async ({ identity: { tenantId }, params: { id } }) =>
      await tenantTransaction(api, tenantId, async (db) =>
        toEndpointSecrets(await secretsOf(db, { tenantId, id }, clock.now())),
      ),
  );
}

function registerSettings(server: SignetServer, services: EndpointSecretRouteServices): void {
  const { api, clock } = services;
  server.patch(
    PATH,
    operation({
      id: "updateEndpointSecrets",
      sdk: {
        name: "endpoints.secrets.update",
        go: "UpdateSecrets",
        types: { typescript: "Partial<SecretSettings>" },
      },
      tag: "endpoints",
      scopes: ["webhooks:write"],
      summary: "Set how an endpoint signs and how often its secret rotates",
      description:
        "`ed25519` adds `v1a` signatures, which receivers verify with a public key. With `rotation_days` the secret rotates on schedule; with a `recipient` the new secret is encrypted to that key.",
      errors: ["INVALID_STATE"],
      requestExamples: { "every 90 days": { rotation_days: 90 } },
      params: IdParams("endpoint"),
      body: SecretSettings,
      response: { 200: EndpointSecrets },
    }),
    async (request) => {
      const { tenantId } = request.identity;
      const place = { tenantId, id: request.params.id };
      const { signing, rotation_days: rotationDays, recipient } = request.body;
      return await tenantTransaction(api, tenantId, async (db) => {
        const change = { signing, rotationDays, recipient };
        await changeSecretSettings(db, place, change, { by: callerOf(request), services });
        return toEndpointSecrets(await secretsOf(db, place, clock.now()));
      });
    },
  );
}

function registerRotation(server: SignetServer, services: EndpointSecretRouteServices): void {
  const { api } = services;
  server.post(
    `${PATH}/rotate`,
    operation({
      id: "rotateEndpointSecret",
      sdk: { name: "endpoints.secrets.rotate", go: "RotateSecret" },
      tag: "endpoints",
      scopes: ["webhooks:write"],
      optionalBody: true,
      summary: "Rotate an endpoint's secret",
      description:
        "Both secrets sign for `overlap_seconds`. Use 0 for a compromised secret: every earlier one stops signing at once.",
      errors: ["INVALID_STATE"],
      requestExamples: {
        "with a day of overlap": { overlap_seconds: 86_400 },
        compromised: { overlap_seconds: 0 },
      },
      params: IdParams("endpoint"),
      headers: IdempotencyHeaders,
      body: SecretRotation,
      response: { 200: RotatedEndpointSecret },
    }),
    async (request, reply) => {
      const { identity, params, body } = request;
      const { tenantId, principalId } = identity;
      const place = { tenantId, id: params.id };
      const rotation = {
        overlapSeconds: body.overlap_seconds ?? DEFAULT_OVERLAP_SECONDS,
        secret: body.secret,
      };
      const repeatable = repeatableRequest(request, tenantId, principalId);
      const { answer, replayed } = await tenantTransaction(
        api,
        tenantId,
        async (db) =>
          await answerOnce(db, repeatable, services, async () => {
            const rotated = await rotateSecret(db, place, rotation, { by: callerOf(request), services });
            const { version, secret } = rotated;
            return { endpoint_id: params.id, ...toEndpointSecretVersion(version, undefined), secret };
          }),
      );
      if (replayed) {
        reply.header("idempotent-replayed", "true");
      }
      // The response contains a secret.
      reply.header("cache-control", "no-store");
      return answer;
    },
  );
}

function registerActivation(server: SignetServer, services: EndpointSecretRouteServices): void {
  const { api } = services;
  server.post(
    `${PATH}/activate`,
    operation({
      id: "activateEndpointSecret",
      sdk: { name: "endpoints.secrets.activate", go: "ActivateSecret" },
      tag: "endpoints",
      scopes: ["webhooks:write"],
      summary: "Make the next secret the primary one now",
      description: "For a receiver that already has the new secret and need not wait for the overlap.",
      errors: ["INVALID_STATE"],
      params: IdParams("endpoint"),
      response: { 200: EndpointSecrets },
    }),
    async (request) => {
      const { tenantId } = request.identity;
      const place = { tenantId, id: request.params.id };
      return await tenantTransaction(api, tenantId, async (db) =>
        toEndpointSecrets(await activateSecret(db, place, { by: callerOf(request), services })),
      );
    },
  );
}
