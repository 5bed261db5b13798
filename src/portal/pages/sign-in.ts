/** Sign-in with a one-time link, sign-out, and the list of open sessions. */
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { Closed } from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";
import { SEE_OTHER } from "../context.ts";
import type { PortalParts } from "../page-parts.ts";
import { Form, requireOwnOrigin } from "../forms.ts";
import { html } from "../html.ts";
import { formFields, moment } from "../parts.ts";
import type { PortalSessions } from "../../tokens/portal-sessions.ts";
import { signInNeeded } from "./problems.ts";

const Link = Type.String({ maxLength: 128 });
const HASH_HEX = "^[0-9a-f]{64}$";

/** The link opens a page with a button, because programs that scan links in messages do not press it. */
function registerLink(
  scope: SignetServer,
  { send, cookie, portalUrl }: PortalParts,
  sessions: PortalSessions,
): void {
  const { origin } = new URL(portalUrl);
  scope.get(
    "/sign-in",
    {
      config: { public: true },
      schema: { hide: true, querystring: Closed({ link: Type.Optional(Link) }) },
    },
    async ({ query: { link } }, reply) =>
      send(
        reply,
        undefined,
        link === undefined
          ? signInNeeded()
          : {
              title: "Sign in",
              body: html`<p>
                  This link signs you in once. The session ends after eight hours, or when you sign out.
                </p>
                <form method="post" action="/portal/sign-in">
                  <input type="hidden" name="link" value="${link}" />
                  <button class="primary">Sign in to the portal</button>
                </form>`,
            },
      ),
  );
  scope.post(
    "/sign-in",
    { config: { public: true }, schema: { hide: true, body: Closed({ link: Link }) } },
    async (request, reply) => {
      requireOwnOrigin(request, origin);
      const { secret } = await sessions.open(request.body.link, {
        requestId: request.id,
        address: request.clientAddress,
        replaces: cookie.read(request),
      });
      cookie.write(reply, secret);
      return await reply.redirect("/portal", SEE_OTHER);
    },
  );
}

export function registerSignIn(scope: SignetServer, parts: PortalParts, sessions: PortalSessions): void {
  const { send, cookie } = parts;
  registerLink(scope, parts, sessions);
  scope.post(
    "/sign-out",
    { config: { portal: [] }, schema: { hide: true, body: Form({}) } },
    async (request, reply) => {
      const { visit } = request;
      await sessions.end(visit, visit.hash, callerOfVisit(request));
      cookie.clear(reply);
      return await reply.redirect("/portal/sign-in", SEE_OTHER);
    },
  );
  scope.get("/sessions", { config: { portal: [] }, schema: { hide: true } }, async ({ visit }, reply) => {
    const open = await sessions.list(visit);
    return send(reply, visit, {
      title: "Sessions",
      body: html`<p>
          Open sessions of <code>${visit.session.clientId}</code>. Revoking the credential ends them all.
        </p>
        <ul class="cards">
          ${open.map(
            ({ hash, within, createdAt, expiresAt }) =>
              html`<li class="card row">
                <div>
                  <strong>${hash.equals(visit.hash) ? "This session" : "Another session"}</strong>
                  <p class="muted">
                    Signed in ${moment(createdAt.toISOString())}, ends ${moment(expiresAt.toISOString())}
                  </p>
                </div>
                ${
                  within
                    ? html`<form method="post" action="/portal/sessions/${hash.toString("hex")}/end">
                        ${formFields(visit)}<button>
                          End<span class="hidden"> the session of ${createdAt.toISOString()}</span>
                        </button>
                      </form>`
                    : html`<p class="muted">This session cannot end it, because it has more scopes.</p>`
                }
              </li>`,
          )}
        </ul>`,
    });
  });
  scope.post(
    "/sessions/:hash/end",
    {
      config: { portal: [] },
      schema: { hide: true, params: Closed({ hash: Type.String({ pattern: HASH_HEX }) }), body: Form({}) },
    },
    async (request, reply) => {
      const { visit, params } = request;
      await sessions.end(visit, Buffer.from(params.hash, "hex"), callerOfVisit(request));
      return await reply.redirect("/portal/sessions", SEE_OTHER);
    },
  );
}

function callerOfVisit({ visit, id }: Pick<FastifyRequest, "visit" | "id">) {
  return { actor: `credential:${visit.identity.credentialId}`, requestId: id } as const;
}
