/** One-time sign-in links for the portal (docs/portal.md). */
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { SCOPES_MAX } from "#domain/scopes.ts";
import { scopeViolation } from "#http/bearer-errors.ts";
import { LINK_LIFE_MAX, type PortalSessions, SIGN_IN_SCOPE } from "#tokens/portal-sessions.ts";
import { callerOf } from "#http/caller.ts";
import { operationOf } from "#tokens/guards/authentication.ts";
import { Body, Resource, Scope, Timestamp } from "#http/common.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

const NewLink = Body("PortalLinkInput", {
  expires_in_seconds: Type.Optional(
    Type.Integer({ minimum: 1, maximum: LINK_LIFE_MAX, description: "Lifetime of the link; 300 by default" }),
  ),
  scopes: Type.Optional(
    Type.Array(Scope, {
      maxItems: SCOPES_MAX,
      uniqueItems: true,
      description: "Scopes of the session, a subset of the token's; by default all of them",
      examples: [["webhooks:read"]],
    }),
  ),
});

const Link = Resource("PortalLink", {
  url: Type.String({ description: "Valid for one sign-in; anybody who has it can use it" }),
  expires_at: Timestamp,
});

const LIFE_DEFAULT = 300;

/**
 * Writes the link's scopes into the body before the idempotency check compares it. Otherwise a token with fewer scopes
 * could get the stored response of a token with more, if neither request names scopes.
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

/** @param portalUrl public base URL of the portal */
export function registerPortalLinks(server: SignetServer, sessions: PortalSessions, portalUrl: string): void {
  server.post(
    "/v1/portal/links",
    {
      ...operation({
        id: "createPortalLink",
        sdk: "portal.createLink",
        tag: "portal",
        scopes: [SIGN_IN_SCOPE],
        optionalBody: true,
        summary: "Create a one-time link to the portal",
        description: "The first person to open the link is signed in, with only the scopes that it names.",
        errors: ["SCOPE_VIOLATION"],
        body: NewLink,
        response: { 201: Link },
      }),
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
