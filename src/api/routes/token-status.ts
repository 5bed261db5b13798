/** The HTTP routes of token revocation and introspection; src/tokens/oauth implements them. */
import { Type } from "typebox";
import { introspectToken, type IntrospectServices } from "../../tokens/oauth/introspect.ts";
import { OAUTH_HEADERS } from "../../http/oauth-error.ts";
import { revokeToken, type RevokeServices } from "../../tokens/oauth/revoke.ts";
import type { ScopeGuard } from "../../tokens/guards/authentication.ts";
import type { SignetServer } from "../../http/types.ts";
import { AnyQuery, OAUTH_BODY_LIMIT, tokenRequest } from "./oauth-requests.ts";

export type TokenStatusServices = RevokeServices & IntrospectServices;

const BEARER = /^Bearer(?: |$)/i;

const Introspection = Type.Object(
  { active: Type.Boolean() },
  { additionalProperties: true, description: "Includes the claims of an active token" },
);

/** Registers both routes on a server that passes bodies as bytes; `guard` is the scope guard. */
export function registerTokenStatusRoutes(
  server: SignetServer,
  services: TokenStatusServices,
  guard: ScopeGuard,
): void {
  const { "content-type": _none, ...headers } = OAUTH_HEADERS;
  server.post(
    "/v1/auth/revoke",
    {
      config: { public: true, rawBody: true },
      bodyLimit: OAUTH_BODY_LIMIT,
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
      bodyLimit: OAUTH_BODY_LIMIT,
      schema: { tags: ["tokens"], querystring: AnyQuery, response: { 200: Introspection } },
    },
    async (request, reply) => {
      const withBearer = BEARER.test(request.headers.authorization ?? "");
      if (withBearer) {
        await new Promise<void>((resolve, reject) => {
          requireScope.call(server, request, reply, (error) =>
            error === undefined ? resolve() : reject(error),
          );
        });
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
