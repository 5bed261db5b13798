/** The OpenAPI description: the schemas of the routes, with texts, examples and errors. */
import swagger, { type FastifyDynamicSwaggerOptions } from "@fastify/swagger";
import type { FastifyContextConfig } from "fastify";
import { describe, type Document } from "./openapi/describe.ts";
import { errorTable } from "./openapi/errors.ts";
import type { OperationTexts } from "./openapi/operation.ts";
import { OPERATOR_OPERATIONS, OPERATOR_TAGS } from "./openapi/operator-operations.ts";
import { TOKEN_OPERATIONS } from "./openapi/token-operations.ts";
import { WEBHOOK_OPERATIONS } from "./openapi/webhook-operations.ts";
import { describeWebhooks } from "./openapi/webhooks.ts";
import { ANY_ORIGIN, makeJsonDocument, onceMade, sendDocument } from "../http/public-document.ts";
import type { SignetServer } from "../http/types.ts";

/** In reading order. */
const TAGS = [
  { name: "tokens", description: "Short-lived access tokens for services (OAuth 2.0 client credentials)" },
  { name: "endpoints", description: "Where events are delivered to, and what proves that they are ours" },
  { name: "event types", description: "The tenant's catalogue, with schemas" },
  { name: "events", description: "Publishing" },
  { name: "deliveries", description: "An event on its way to an endpoint, with every attempt" },
  { name: "dead letters", description: "What failed 17 times, for 7 days, and its replay" },
  { name: "portal", description: "Links that sign people in" },
  { name: "credentials", description: "What services prove themselves with" },
  { name: "compliance", description: "The log that nobody can change, with proofs" },
  {
    name: "what receivers get",
    description: "The requests that endpoints get: verify, answer 2xx, tell repetitions by the event's id",
  },
];

const SECURITY_SCHEMES = {
  bearer: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description:
      "An access token of `POST /v1/auth/token`. The scopes that an operation needs are listed with it; without them the answer is 403 `SCOPE_VIOLATION`.",
  },
  mutualTls: {
    type: "mutualTLS",
    description:
      "The client's certificate; tokens are bound to it (RFC 8705). Asked for in production, where `SIGNET_MTLS_MODE` is not off.",
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
    description: "Signed producers: Unix seconds, at most 300 ago",
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
      "An operator's token. An operator whose certificate is known needs none. `x-operator-role` says which role an operation takes: `security` may do what `provision` may, and that what `read` may.",
  },
} as const;
/** The plugin's types know the kinds of OpenAPI 3.0 only: `mutualTLS` came with 3.1. */
type SecuritySchemes = Exclude<
  NonNullable<FastifyDynamicSwaggerOptions["openapi"]>["components"],
  undefined
>["securitySchemes"];

/** What a server says of itself. */
export interface OpenApiOptions {
  /** What the paths are below; relative for a server that does not know how it is reached. */
  readonly address: string;
  /** The address that problem types live under. */
  readonly baseUrl: string;
  readonly audience: "tenants" | "operators";
}

/** What the description says of who may call a route. */
function declarations({ scopes, operator, audits, signatures }: FastifyContextConfig) {
  if (operator !== undefined) {
    return {
      security: [{ operator: [] }],
      "x-operator-role": operator,
      ...(audits === undefined ? {} : { "x-audits": audits }),
    };
  }
  if (scopes === undefined) {
    return {};
  }
  return {
    security: [
      { bearer: [...scopes], mutualTls: [] },
      ...(signatures === true ? [{ keyId: [], timestamp: [], signature: [], mutualTls: [] }] : []),
    ],
  };
}

const TENANTS_WAY_IN = `Short-lived signed tokens and signed webhooks.

Get a token with \`POST /v1/auth/token\` and send it as \`Authorization: Bearer\`.`;
const OPERATORS_WAY_IN = `The operators' API of Signet, on a listener of its own.

Send an operator's token as \`Authorization: Bearer\`. \`x-audits\` names the entries of the compliance log that an operation writes.`;

function introduction(baseUrl: string, wayIn: string): string {
  return `${wayIn} Times are RFC 3339 in UTC. Lists are paged with \`limit\` and \`cursor\`; a page of events or dead letters ends early at 1 MiB of event data. Long answers are packed for clients that send \`Accept-Encoding: gzip\`. Every POST but the OAuth endpoints takes an \`Idempotency-Key\`. Members and parameters that are not known are refused in requests; answers may get further members and words, so ignore those that you do not know. Every answer has an \`X-Request-Id\`.

## Errors

Errors are problem documents (RFC 9457) with a stable \`code\`; those of the OAuth endpoints have the form of RFC 6749.

${errorTable(baseUrl)}
`;
}

/** Collects the routes that are registered after this call. */
export async function collectOpenApi(
  server: SignetServer,
  { address, baseUrl, audience }: OpenApiOptions,
): Promise<void> {
  const tenants = audience === "tenants";
  const texts: OperationTexts = tenants
    ? { ...TOKEN_OPERATIONS, ...WEBHOOK_OPERATIONS }
    : OPERATOR_OPERATIONS;
  await server.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: tenants ? "Signet" : "Signet for operators",
        version: "1",
        description: introduction(baseUrl, tenants ? TENANTS_WAY_IN : OPERATORS_WAY_IN),
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
      schema: { ...schema, ...declarations(route.config ?? {}) },
    }),
    transformObject: (made) => {
      const routes = ("openapiObject" in made
        ? made.openapiObject
        : made.swaggerObject) as unknown as Document;
      const webhooks = tenants ? { webhooks: describeWebhooks() } : {};
      return describe(routes, { texts, baseUrl, ...webhooks }) as never;
    },
  });
}

/** `/openapi.json`. */
export function registerOpenApiRoute(server: SignetServer): void {
  const document = onceMade(() => makeJsonDocument(server.swagger()));
  server.get(
    "/openapi.json",
    { config: { public: true }, schema: { hide: true } },
    (request, reply) =>
      void sendDocument(request, reply, document(), { ...ANY_ORIGIN, "cache-control": "no-cache" }),
  );
}

/** `/admin/v1/openapi.json`, for operators. */
export function registerAdminOpenApiRoute(server: SignetServer): void {
  const document = onceMade(() => makeJsonDocument(server.swagger()));
  server.get(
    "/admin/v1/openapi.json",
    { config: { operator: "read" }, schema: { tags: ["operators"] } },
    (request, reply) => void sendDocument(request, reply, document()),
  );
}
