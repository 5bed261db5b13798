/** The HTTP routes of token revocation and introspection; src/tokens/oauth implements them. */
import { Resource } from "#http/common.ts";
import { Type } from "typebox";
import { introspectToken, type IntrospectServices } from "#tokens/oauth/introspect.ts";
import { OAUTH_HEADERS } from "#http/oauth-error.ts";
import { revokeToken, type RevokeServices } from "#tokens/oauth/revoke.ts";
import type { ScopeGuard } from "#tokens/guards/authentication.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { DOCUMENTED_TOKEN_QUESTION, EXAMPLE_CLIENT, OAUTH_ENDPOINT, tokenRequest } from "./oauth-requests.ts";

export type TokenStatusServices = RevokeServices & IntrospectServices;

const EXAMPLES = {
  token: { ...EXAMPLE_CLIENT, token: "eyJhbGciOiJFUzI1NiJ9.eyJleHAiOjE3NjM2NTA5MDB9.c2lnbmF0dXJl" },
};

const BEARER = /^Bearer(?: |$)/i;

const Introspection = Resource(
  "Introspection",
  { active: Type.Boolean() },
  { additionalProperties: true, description: "Includes the claims of an active token" },
);

/** Registers both routes on a server that passes bodies as bytes; `guard` is the scope guard. */
export function registerTokenStatusRoutes(
  server: SignetServer,
  services: TokenStatusServices,
  guard: ScopeGuard,
): void {
  registerRevocation(server, services);
  registerIntrospection(server, services, guard(["tokens:introspect"]));
}

function registerRevocation(server: SignetServer, services: RevokeServices): void {
  const { "content-type": _none, ...headers } = OAUTH_HEADERS;
  server.post(
    "/v1/auth/revoke",
    operation({
      ...OAUTH_ENDPOINT,
      id: "revokeToken",
      sdk: { none: "Libraries for OAuth 2.0 have it." },
      summary: "Revoke an access token",
      description:
        "RFC 7009, for the client's own tokens. The response is 200 whether or not the token exists. Every process rejects the token within 250 ms.",
      errors: ["INVALID_CLIENT", "CLIENT_CERT_REQUIRED"],
      documentedBody: DOCUMENTED_TOKEN_QUESTION,
      requestExamples: EXAMPLES,
    }),
    async (request, reply) => {
      await revokeToken(tokenRequest(request), request.id, services);
      return await reply.code(200).headers(headers).send();
    },
  );
}

function registerIntrospection(
  server: SignetServer,
  services: IntrospectServices,
  requireScope: ReturnType<ScopeGuard>,
): void {
  server.post(
    "/v1/auth/introspect",
    operation({
      ...OAUTH_ENDPOINT,
      id: "introspectToken",
      sdk: { none: "Libraries for OAuth 2.0 have it." },
      summary: "Check whether an access token is active",
      description:
        "RFC 7662. A client may introspect its own tokens with its credentials. With the scope `tokens:introspect` it may introspect all tokens of its tenant.",
      errors: [
        "INVALID_CLIENT",
        "TOKEN_INVALID",
        "TOKEN_EXPIRED",
        "TOKEN_REVOKED",
        "CLIENT_CERT_REQUIRED",
        "CERT_BINDING_MISMATCH",
        "SCOPE_VIOLATION",
        "REVOCATION_STALE",
      ],
      documentedBody: DOCUMENTED_TOKEN_QUESTION,
      requestExamples: EXAMPLES,
      responseExample: {
        active: true,
        scope: "webhooks:read",
        client_id: EXAMPLE_CLIENT.client_id,
        exp: 1_763_650_900,
      },
      response: { 200: Introspection },
    }),
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
