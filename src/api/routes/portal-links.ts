/** One-time sign-in links for the portal (docs/portal.md). */
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { SCOPES_MAX } from "../../domain/scopes.ts";
import { scopeViolation } from "../../http/bearer-errors.ts";
import { LINK_LIFE_MAX, type PortalSessions, SIGN_IN_SCOPE } from "../../tokens/portal-sessions.ts";
import { callerOf } from "../../http/caller.ts";
import { operationOf } from "../../tokens/guards/authentication.ts";
import { Closed, Scope, Timestamp } from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";

const NewLink = Closed({
  expires_in_seconds: Type.Optional(
    Type.Integer({ minimum: 1, maximum: LINK_LIFE_MAX, description: "300 unless it says otherwise" }),
  ),
  scopes: Type.Optional(
    Type.Array(Scope, {
      maxItems: SCOPES_MAX,
      uniqueItems: true,
      description: "What the session may do: some of the token's scopes; all of them where absent",
      examples: [["webhooks:read"]],
    }),
  ),
});

const Link = Type.Object({
  url: Type.String({ description: "Good for one sign-in; whoever has it can use it" }),
  expires_at: Timestamp,
});

const LIFE_DEFAULT = 300;

/**
 * Says what the link will carry, before it is asked whether the request came before: the answer to a request of a token
 * with more scopes is not for one with fewer, also where neither names any.
 *
 * @throws SignetError SCOPE_VIOLATION
 */
function requireHeldScopes(
  request: FastifyRequest<{ Body: Static<typeof NewLink> }>,
  _reply: unknown,
  done: () => void,
): void {
  const { identity, body } = request;
  body.scopes = (body.scopes ?? [...identity.scopes]).toSorted();
  const violation = scopeViolation({
    operation: operationOf(request),
    required: body.scopes,
    granted: identity.scopes,
    detail: "A session cannot hold scopes that the token does not hold.",
  });
  if (violation !== undefined) {
    throw violation;
  }
  done();
}

/** @param portalUrl where browsers find the portal */
export function registerPortalLinks(server: SignetServer, sessions: PortalSessions, portalUrl: string): void {
  server.post(
    "/v1/portal/links",
    {
      config: { scopes: [SIGN_IN_SCOPE], optionalBody: true },
      schema: { tags: ["portal"], body: NewLink, response: { 201: Link } },
      preHandler: requireHeldScopes,
    },
    async (request, reply) => {
      const { identity, body } = request;
      const { scopes = [], expires_in_seconds: lifeSeconds = LIFE_DEFAULT } = body;
      const { secret, expiresAt } = await sessions.mint(identity, { scopes, lifeSeconds }, callerOf(request));
      reply.code(201).header("cache-control", "no-store");
      return { url: `${portalUrl}/portal/sign-in?link=${secret}`, expires_at: expiresAt.toISOString() };
    },
  );
}
