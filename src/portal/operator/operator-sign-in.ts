/** Signing in to the operators' console, by token or by certificate, and signing out. */
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { identifyOperator } from "#api/admin/operator-guard.ts";
import { SignetError } from "#domain/errors.ts";
import { Closed } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { SEE_OTHER } from "../context.ts";
import { Form, Line, requireOwnOrigin } from "../forms.ts";
import { html, type Html } from "../html.ts";
import { CONSOLE_SCOPE, type PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { type ConsoleOptions, originOf } from "./console-options.ts";

/** Maximum length of a token, in characters; the bootstrap token may be chosen by people. */
const TOKEN_MAX = 512;
const PATH = "/portal/operator/sign-in";

/** Renders the button that signs in by certificate. The browser has presented it already. */
function byCertificate({ clientCertificate }: FastifyRequest): Html | false {
  return (
    clientCertificate !== undefined &&
    html`<form method="post" action="${PATH}">
      <p>Your browser presents a client certificate.</p>
      <button class="primary">Sign in with the certificate</button>
    </form>`
  );
}

/** Renders the sign-in page. */
export function operatorSignIn(request: FastifyRequest, problem?: string): PageContent {
  return {
    title: "Operators: sign in",
    notice: problem === undefined ? undefined : { kind: "problem", text: problem },
    body: html`${byCertificate(request)}
      <form method="post" action="${PATH}" class="card form">
        <div class="field">
          <label for="token">Operator token</label>
          <input
            id="token"
            name="token"
            type="password"
            required
            autocomplete="off"
            spellcheck="false"
            maxlength="${TOKEN_MAX}"
          />
        </div>
        <div class="buttons"><button class="primary">Sign in</button></div>
      </form>
      <p class="muted">
        The session ends after an hour, when you sign out, or with your token. Signing in is an entry of the
        compliance log. <code>signet operator token create</code> makes a token.
      </p>`,
  };
}

/** Registers the pages. */
export function registerOperatorSignIn(
  scope: SignetServer,
  { send, cookie }: PortalServices,
  { access, operators }: ConsoleOptions,
): void {
  scope.get("/operator/sign-in", { config: { public: true }, schema: { hide: true } }, (request, reply) =>
    send(reply, undefined, operatorSignIn(request)),
  );
  scope.post(
    "/operator/sign-in",
    {
      // A browser sends a form without fields as no body.
      config: { public: true, optionalBody: true },
      schema: { hide: true, body: Closed({ token: Type.Optional(Line(TOKEN_MAX)) }) },
    },
    async (request, reply) => {
      requireOwnOrigin(request, originOf(request));
      const token = request.body.token?.trim();
      const { clientCertificate: certificate } = request;
      if (token === undefined && certificate === undefined) {
        return send(reply.code(401), undefined, operatorSignIn(request, "Enter a token."));
      }
      try {
        const { identity, tokenId } = await identifyOperator(
          access,
          request,
          async () =>
            await (token === undefined && certificate !== undefined
              ? access.authenticator.byCertificate(certificate)
              : access.authenticator.byToken(token ?? "")),
        );
        cookie.write(reply, await operators.open({ identity, tokenId, token, certificate }, request.id));
      } catch (error) {
        if (error instanceof SignetError && error.status < 500) {
          return send(reply.code(error.status), undefined, operatorSignIn(request, error.message));
        }
        throw error;
      }
      return await reply.redirect("/portal/operator", SEE_OTHER);
    },
  );
  scope.post(
    "/sign-out",
    { config: { portal: [CONSOLE_SCOPE] }, schema: { hide: true, body: Form({}) } },
    async (request, reply) => {
      await operators.end(request.operatorSession, request.id);
      cookie.clear(reply);
      return await reply.redirect(PATH, SEE_OTHER);
    },
  );
}
