/** The OpenAPI document: the routes' schemas and texts, with examples and errors. */
import { DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import { DEFAULT_TOLERANCE_SECONDS } from "#lib/receiver/verify.ts";
import swagger, { type FastifyDynamicSwaggerOptions } from "@fastify/swagger";
import type { FastifyContextConfig } from "fastify";
import { describe, type Document } from "./openapi/describe.ts";
import { errorTable } from "./openapi/errors.ts";
import { describeWebhooks } from "./openapi/webhooks.ts";
import { ANY_ORIGIN, makeJsonDocument, onceMade, sendDocument } from "#http/public-document.ts";
import { operation } from "./openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

/** The tenants' tags in reading order. */
const TAGS = [
  { name: "tokens", description: "Short-lived access tokens for services (OAuth 2.0 client credentials)" },
  { name: "endpoints", description: "URLs that receive events, and the secrets that sign them" },
  { name: "event types", description: "The tenant's catalogue of event types, with schemas" },
  { name: "events", description: "Published events" },
  { name: "deliveries", description: "Deliveries of events to endpoints, with every attempt" },
  {
    name: "dead letters",
    description: `Failed deliveries, which can be replayed for ${DEAD_LETTER_DAYS} days`,
  },
  { name: "portal", description: "Links that sign people in" },
  { name: "credentials", description: "Credentials that services authenticate with" },
  {
    name: "security events",
    description: "Streams that tell receivers of revocations (OpenID Shared Signals Framework)",
  },
  { name: "compliance", description: "The tamper-evident log, with proofs" },
  {
    name: "webhook requests",
    description:
      "The requests that endpoints get: verify the signature, answer 2xx, detect duplicates by the event's id",
  },
];

/** The operators' tags in reading order. */
const OPERATOR_TAGS = [
  { name: "tenants", description: "Customers of the platform: limits, suspension and erasure" },
  { name: "roles", description: "Named sets of scopes" },
  { name: "principals", description: "Services that hold credentials" },
  { name: "credentials", description: "Client ids and secrets" },
  { name: "revocations", description: "Tokens and certificates that every process rejects" },
  { name: "operators", description: "People and programs that may use this API" },
  {
    name: "support",
    description:
      "The state of the deployment; finds, explains and reads what tenants have, without its content",
  },
  { name: "audit", description: "The compliance log of all tenants, with proofs" },
  { name: "signing-keys", description: "Keys that sign access tokens" },
  { name: "key-encryption", description: "Keys that wrap keys and secrets" },
];

/** The scopes that the operations require. */
const SCOPES = {
  "compliance:read": "Read the compliance log",
  "credentials:read": "Read credentials",
  "credentials:revoke": "Revoke credentials",
  "credentials:write": "Create, replace and change credentials",
  "events:publish": "Publish events and erase their content",
  "events:read": "Read events",
  "portal:sign_in": "Create links that sign people in",
  "ssf:manage": "Create and change streams of security events",
  "ssf:read": "Read streams of security events, and poll them",
  "webhooks:read": "Read endpoints, event types, deliveries and dead letters",
  "webhooks:replay": "Replay and resend deliveries",
  "webhooks:write": "Change endpoints, event types and deliveries",
};

const SECURITY_SCHEMES = {
  bearer: {
    type: "oauth2",
    flows: { clientCredentials: { tokenUrl: "/v1/auth/token", scopes: SCOPES } },
    description:
      "An access token from `POST /v1/auth/token`. Each operation lists the scopes that it requires; without them the response is 403 `SCOPE_VIOLATION`.",
  },
  mutualTls: {
    type: "mutualTLS",
    description:
      "The client's certificate; tokens are bound to it (RFC 8705). Required in production unless `SIGNET_MTLS_MODE` is off.",
  },
  keyId: {
    type: "apiKey",
    in: "header",
    name: "X-Service-Key-Id",
    description: "Signed producers: the credential's id",
  },
  timestamp: {
    type: "apiKey",
    in: "header",
    name: "X-Service-Timestamp",
    description: `Signed producers: Unix seconds, at most ${DEFAULT_TOLERANCE_SECONDS} seconds old`,
  },
  signature: {
    type: "apiKey",
    in: "header",
    name: "X-Service-Signature-256",
    description:
      "Signed producers: `sha256=` and the hexadecimal HMAC-SHA-256 of the body under the credential's signing secret",
  },
} as const;
const OPERATOR_SCHEMES = {
  operator: {
    type: "http",
    scheme: "bearer",
    description:
      "An operator's token. An operator with a registered certificate needs none. `x-operator-role` is the role that an operation requires: `security` includes `provision`, which includes `read`.",
  },
} as const;
/** The plugin's types know the kinds of OpenAPI 3.0 only: `mutualTLS` came with 3.1. */
type SecuritySchemes = Exclude<
  NonNullable<FastifyDynamicSwaggerOptions["openapi"]>["components"],
  undefined
>["securitySchemes"];

/** How a document describes its server. */
export interface OpenApiOptions {
  /** Base URL of the paths; relative if the server does not know its own address. */
  readonly address: string;
  /** Base URL of the problem types. */
  readonly baseUrl: string;
  readonly audience: "tenants" | "operators";
}

/** Returns the security requirements of a route. */
function declarations({ scopes, operator, audits, signatures }: FastifyContextConfig) {
  if (operator !== undefined) {
    return {
      security: [{ operator: [] }],
      "x-operator-role": operator,
      ...(audits === undefined ? {} : { "x-audits": audits }),
    };
  }
  if (scopes === undefined) {
    return { security: [] };
  }
  return {
    security: [
      { bearer: [...scopes], mutualTls: [] },
      ...(signatures === true ? [{ keyId: [], timestamp: [], signature: [], mutualTls: [] }] : []),
    ],
  };
}

const tenantsWayIn = (baseUrl: string): string => `Short-lived signed tokens and signed webhooks.

[The guide](${baseUrl}/docs/guide) has concepts and tutorials. Get a token with \`POST /v1/auth/token\` and send it as \`Authorization: Bearer\`.`;
const OPERATORS_WAY_IN = `The operators' API of Signet, on a separate listener.

Send an operator's token as \`Authorization: Bearer\`. \`x-audits\` names the entries of the compliance log that an operation writes.`;

function introduction(baseUrl: string, wayIn: string): string {
  return `${wayIn} Times are RFC 3339 in UTC. Lists are paged with \`limit\` and \`cursor\`; a page of events or dead letters ends early at 1 MiB of event data. Long responses are compressed for clients that send \`Accept-Encoding: gzip\`. Every POST except to the OAuth endpoints accepts an \`Idempotency-Key\`. Requests with unknown members or parameters are rejected. Responses may get new members and enum values, so ignore unknown ones. Every response has an \`X-Request-Id\`.

## Errors

Errors are problem documents (RFC 9457) with a stable \`code\`; the OAuth endpoints use the format of RFC 6749.

${errorTable(baseUrl)}
`;
}

/** Collects the routes registered after this call. */
export async function collectOpenApi(
  server: SignetServer,
  { address, baseUrl, audience }: OpenApiOptions,
): Promise<void> {
  const tenants = audience === "tenants";
  await server.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: tenants ? "Signet" : "Signet for operators",
        version: "1",
        description: introduction(baseUrl, tenants ? tenantsWayIn(baseUrl) : OPERATORS_WAY_IN),
        license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      },
      servers: [{ url: address }],
      tags: tenants ? TAGS : OPERATOR_TAGS,
      components: {
        securitySchemes: (tenants
          ? SECURITY_SCHEMES
          : OPERATOR_SCHEMES) as unknown as NonNullable<SecuritySchemes>,
      },
    },
    transform: ({ schema, url, route }) => ({
      url,
      schema: { ...schema, ...declarations(route.config ?? {}), "x-documentation": route.config },
    }),
    transformObject: (made) => {
      const routes = ("openapiObject" in made
        ? made.openapiObject
        : made.swaggerObject) as unknown as Document;
      const webhooks = tenants ? { webhooks: describeWebhooks() } : {};
      return describe(routes, { baseUrl, ...webhooks }) as never;
    },
  });
}

/** Registers `/openapi.json`. */
export function registerOpenApiRoute(server: SignetServer): void {
  const document = onceMade(() => makeJsonDocument(server.swagger()));
  server.get(
    "/openapi.json",
    { config: { public: true }, schema: { hide: true } },
    (request, reply) =>
      void sendDocument(request, reply, document(), { ...ANY_ORIGIN, "cache-control": "no-cache" }),
  );
}

/** Registers `/admin/v1/openapi.json`, for operators. */
export function registerAdminOpenApiRoute(server: SignetServer): void {
  const document = onceMade(() => makeJsonDocument(server.swagger()));
  server.get(
    "/admin/v1/openapi.json",
    operation({
      id: "getOpenApi",
      tag: "operators",
      operator: "read",
      summary: "Read this document",
      description: "OpenAPI 3.1, generated by the running service.",
      documentedResponse: {
        "x-name": "OpenApiDocument",
        type: "object",
        description: "An OpenAPI 3.1 document",
        additionalProperties: true,
      },
      responseExample: { openapi: "3.1.0" },
    }),
    (request, reply) => void sendDocument(request, reply, document()),
  );
}
