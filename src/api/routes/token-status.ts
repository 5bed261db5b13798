/** Revocation and introspection of tokens over HTTP; what they do is in src/oauth. */
import type { FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import { Type } from "typebox";
import { introspectToken, type IntrospectServices } from "../../oauth/introspect.ts";
import { OAUTH_HEADERS } from "../../oauth/oauth-error.ts";
import { revokeToken, type RevokeServices } from "../../oauth/revoke.ts";
import type { TokenRequest } from "../../oauth/token.ts";
import type { SignetServer } from "../types.ts";

export type TokenStatusServices = RevokeServices & IntrospectServices;

const BODY_LIMIT = 8_192;
const BEARER = /^Bearer(?: |$)/i;

/** Parameters are named in the body; the query is checked by the endpoint, which has an error format of its own. */
const AnyQuery = Type.Unsafe<Readonly<Record<string, unknown>>>({});

const Introspection = Type.Object(
  { active: Type.Boolean() },
  { additionalProperties: true, description: "With the token's claims when it is active" },
);

/** What the OAuth endpoints read of a request. */
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

/** Registers both on a server that hands bodies over as bytes; `guard` is that of routes with scopes. */
export function registerTokenStatusRoutes(
  server: SignetServer,
  services: TokenStatusServices,
  guard: (required: readonly string[]) => onRequestAsyncHookHandler,
): void {
  const { "content-type": _none, ...headers } = OAUTH_HEADERS;
  server.post(
    "/v1/auth/revoke",
    {
      config: { public: true, rawBody: true },
      bodyLimit: BODY_LIMIT,
      schema: { tags: ["tokens"], querystring: AnyQuery },
    },
    async (request, reply) => {
      await revokeToken(tokenRequest(request), request.id, services);
      return await reply.code(200).headers(headers).send();
    },
  );

  const requireScope = guard(["tokens:introspect"]);
  server.post(
    "/v1/auth/introspect",
    {
      config: { public: true, rawBody: true },
      bodyLimit: BODY_LIMIT,
      schema: { tags: ["tokens"], querystring: AnyQuery, response: { 200: Introspection } },
    },
    async (request, reply) => {
      const withBearer = BEARER.test(request.headers.authorization ?? "");
      if (withBearer) {
        await requireScope.call(server, request, reply);
      }
      const answer = await introspectToken(
        tokenRequest(request),
        withBearer ? request.identity : undefined,
        services,
      );
      reply.headers(OAUTH_HEADERS);
      return answer;
    },
  );
}
