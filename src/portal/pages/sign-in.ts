/** Sign-in with a one-time link, sign-out, and the list of open sessions. */
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { Closed } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { SEE_OTHER } from "../context.ts";
import type { PortalServices } from "../page-parts.ts";
import { Form, requireOwnOrigin } from "../forms.ts";
import { html } from "../html.ts";
import { formFields, moment } from "../parts.ts";
import type { PortalSessions } from "#tokens/portal-sessions.ts";
import { refused } from "../problems.ts";
import { linkEnded, signInNeeded } from "./problems.ts";

const Link = Type.String({ maxLength: 128 });
/** Status of a page for a link that opens no session, as of TOKEN_INVALID. */
const LINK_ENDED = 401;
const HASH_HEX = "^[0-9a-f]{64}$";

/** The link opens a page with a button, because programs that scan links in messages do not press it. */
function registerLink(scope: SignetServer, parts: PortalServices, sessions: PortalSessions): void {
  const { send, cookie, brands, portalUrl, development } = parts;
  const { origin } = new URL(portalUrl);
  scope.get(
    "/sign-in",
    {
      config: { public: true },
      schema: { hide: true, querystring: Closed({ link: Type.Optional(Link) }) },
    },
    async ({ query: { link }, clientAddress }, reply) => {
      const brand = await brands.ofSecret(link);
      if (link === undefined) {
        return send(reply, undefined, signInNeeded({ brand, development }));
      }
      if (!(await sessions.isOpen(link, clientAddress))) {
        return send(reply.code(LINK_ENDED), undefined, linkEnded({ brand, development }));
      }
      return send(reply, undefined, {
        title: brand.own ? "Sign in" : `Sign in to ${brand.name}`,
        brand,
        body: html`<p>
            This link signs you in once. The session ends after eight hours, or when you sign out.
          </p>
          <form method="post" action="/portal/sign-in">
            <input type="hidden" name="link" value="${link}" />
            <button class="primary">Sign in to the portal</button>
          </form>`,
      });
    },
  );
  scope.post(
    "/sign-in",
    { config: { public: true }, schema: { hide: true, body: Closed({ link: Link }) } },
    async (request, reply) => {
      requireOwnOrigin(request, origin);
      const { link } = request.body;
      const opened = await refused(
        sessions.open(link, {
          requestId: request.id,
          address: request.clientAddress,
          userAgent: request.headers["user-agent"],
          replaces: cookie.read(request),
        }),
      );
      if ("error" in opened) {
        const { error } = opened;
        if (error.code !== "TOKEN_INVALID") {
          throw error;
        }
        const brand = await brands.ofSecret(link);
        return send(reply.code(error.status), undefined, linkEnded({ brand, development }));
      }
      cookie.write(reply, opened.answer.secret);
      return await reply.redirect("/portal", SEE_OTHER);
    },
  );
}

export function registerSignIn(scope: SignetServer, parts: PortalServices, sessions: PortalSessions): void {
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
            ({ hash, within, created_at, expires_at, address, user_agent }) =>
              html`<li class="card row">
                <div>
                  <strong>${hash.equals(visit.hash) ? "This session" : "Another session"}</strong>
                  <p class="muted">
                    ${browserText(user_agent)}${address !== null && html` from ${address}`}. Signed in
                    ${moment(created_at.toISOString())}, ends ${moment(expires_at.toISOString())}.
                  </p>
                </div>
                ${
                  within
                    ? html`<form method="post" action="/portal/sessions/${hash.toString("hex")}/end">
                        ${formFields(visit)}<button>
                          End<span class="hidden"> the session of ${created_at.toISOString()}</span>
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

/** Names in User-Agent headers, the more specific first: Edge also names Chrome, and Chrome names Safari. */
const BROWSERS = [
  ["Edg/", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
] as const;
const SYSTEMS = [
  ["iPhone", "iPhone"],
  ["iPad", "iPad"],
  ["Android", "Android"],
  ["Windows", "Windows"],
  ["Mac OS X", "macOS"],
  ["Linux", "Linux"],
] as const;

/** Returns for instance "Firefox on Linux". */
function browserText(userAgent: string | null): string {
  const nameIn = (names: readonly (readonly [string, string])[]): string | undefined =>
    names.find(([part]) => userAgent?.includes(part))?.[1];
  const system = nameIn(SYSTEMS);
  return `${nameIn(BROWSERS) ?? "Unknown browser"}${system === undefined ? "" : ` on ${system}`}`;
}

function callerOfVisit({ visit, id }: Pick<FastifyRequest, "visit" | "id">) {
  return { actor: `credential:${visit.identity.credentialId}`, requestId: id } as const;
}
