/** Requests of the OAuth endpoints: raw bytes, since these endpoints also parse forms, and their own error format. */
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { TokenRequest } from "#tokens/oauth/token.ts";

/** What the declarations of the OAuth endpoints share. They validate query and body, for the OAuth error format. */
export const OAUTH_ENDPOINT = {
  tag: "tokens",
  home: true,
  public: true,
  rawBody: true,
  querystring: Type.Unsafe<Readonly<Record<string, unknown>>>({}),
  bodyLimit: 8_192,
} as const;

const ClientMembers = {
  client_id: { type: "string", examples: ["cl_7Hq2mVx9KcT4bYw8Rz3Nf6Pd"] },
  client_secret: { type: "string", description: "For `client_secret_post`; excludes other methods" },
  client_assertion: { type: "string", description: "For `private_key_jwt`: a JWT (RFC 7523)" },
  client_assertion_type: {
    type: "string",
    enum: ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"],
  },
};

/** Body of a token request, for the OpenAPI document. */
export const DOCUMENTED_TOKEN_REQUEST = {
  "x-name": "TokenRequest",
  type: "object",
  required: ["grant_type"],
  properties: {
    ...ClientMembers,
    grant_type: { type: "string", enum: ["client_credentials"] },
    scope: { type: "string", description: "A subset of the principal's scopes, separated by spaces" },
    resource: { type: "string", description: "The audience (RFC 8707)" },
  },
};

/** Body of revocation and introspection, for the OpenAPI document. */
export const DOCUMENTED_TOKEN_QUESTION = {
  "x-name": "TokenQuestion",
  type: "object",
  required: ["token"],
  properties: { ...ClientMembers, token: { type: "string" }, token_type_hint: { type: "string" } },
};

/** Credentials in the examples of the OpenAPI document. */
export const EXAMPLE_CLIENT = {
  client_id: "cl_7Hq2mVx9KcT4bYw8Rz3Nf6Pd",
  client_secret: `sgn_live_sk_${"k".repeat(43)}0Zx81Q`,
};

/** Returns the parts of a request that the OAuth endpoints use. */
export function tokenRequest(request: FastifyRequest): TokenRequest {
  return {
    body: request.body as Buffer | undefined,
    contentType: request.headers["content-type"],
    authorization: request.headers.authorization,
    query: request.query as Readonly<Record<string, unknown>>,
    address: request.clientAddress,
    clientCertificate: request.clientCertificate,
  };
}
