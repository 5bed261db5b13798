/**
 * The tenant portal, an encapsulated part of the api process. Its pages are clients of the public API: they call the same
 * routes as other clients, on behalf of the session. A portal route declares the scopes that it requires, and the API's
 * routes check scopes again.
 */
import type { FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import { toSignetError } from "../http/framework-errors.ts";
import { operationOf } from "../tokens/guards/authentication.ts";
import type { SignetServer } from "../http/types.ts";
import { nothingHere, SignetError } from "../domain/errors.ts";
import { scopeViolation } from "../http/bearer-errors.ts";
import { loadAssets } from "./assets.ts";
import type { PageOptions, PortalOptions } from "./context.ts";
import type { PortalParts } from "./page-parts.ts";
import { createSessionCookie, type SessionCookie } from "./cookie.ts";
import { installForms, requireFormToken, requireOwnOrigin } from "./forms.ts";
import { document, type PageContent } from "./layout.ts";
import { problemPage, signInNeeded } from "./pages/problems.ts";
import { registerCompliancePages } from "./pages/compliance.ts";
import { registerCredentialPages } from "./pages/credentials.ts";
import { registerDeadLetterPages } from "./pages/dead-letters.ts";
import { registerDeliveryPages } from "./pages/deliveries.ts";
import { registerEndpointPages } from "./pages/endpoints.ts";
import { registerEventTypePages } from "./pages/event-types.ts";
import { registerHomePage } from "./pages/home.ts";
import { registerSignIn } from "./pages/sign-in.ts";
import { type Visit, visitOf } from "./visit.ts";

const HTML = "text/html; charset=utf-8";
const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  // Do not use no-referrer, because browsers then send forms with Origin: null.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
} as const;

/** How visitors sign in, and which pages they have in addition to the tenant's. */
export interface Entrance {
  readonly cookie: SessionCookie;
  readonly register: (scope: SignetServer, parts: PortalParts) => void;
  /** Renders the page for visitors without a session. */
  readonly signInPage: (request: FastifyRequest) => PageContent;
}

function partsOf(
  options: PageOptions,
  assets: ReturnType<typeof loadAssets>,
  { cookie }: Entrance,
): PortalParts {
  return {
    ...options,
    assets,
    cookie,
    send: (reply, visit, content) => reply.type(HTML).send(document(assets, visit, content)),
  };
}

/** Checks whether a request submits a form. */
export function changes({ method }: { readonly method: string }): boolean {
  return method !== "GET" && method !== "HEAD";
}

/** Creates the guard of the portal's pages. Without a session, the page says how to get one. */
export function createPortalGuard(
  server: () => SignetServer,
  { sessions, calls, temporal, portalUrl, development }: PortalOptions,
): (required: readonly string[]) => onRequestAsyncHookHandler {
  const cookie = createSessionCookie(!development);
  const { origin } = new URL(portalUrl);
  return (required) => async (request) => {
    const secret = cookie.read(request);
    const signedIn = await sessions.find(secret, request.clientAddress);
    if (secret === undefined || signedIn === undefined) {
      throw new SignetError("TOKEN_MISSING", { detail: "You are not signed in, or your session has ended." });
    }
    request.visit = visitOf(request, { ...signedIn, secret }, { server: server(), calls, temporal });
    const granted = signedIn.identity.scopes;
    const violation = scopeViolation({ operation: operationOf(request), required, granted });
    if (violation !== undefined) {
      throw violation;
    }
    if (changes(request)) {
      requireOwnOrigin(request, origin);
    }
  };
}

function installFailures(scope: SignetServer, { send }: PortalParts, { signInPage }: Entrance): void {
  scope.setNotFoundHandler(() => {
    throw nothingHere();
  });
  scope.setErrorHandler((thrown, request, reply) => {
    const error = toSignetError(thrown);
    if (error.status >= 500) {
      request.log.error(
        { request_id: request.id, code: error.code, err: error.cause ?? error },
        "page failed",
      );
    }
    const { visit } = request as { visit?: Visit };
    const { "retry-after": retryAfter } = error.headers;
    reply.code(error.status);
    // A failed download must not be saved as a file.
    reply.removeHeader("content-disposition");
    if (retryAfter !== undefined) {
      reply.header("retry-after", retryAfter);
    }
    return error.code === "TOKEN_MISSING"
      ? send(reply, undefined, signInPage(request))
      : send(reply, visit, problemPage(error, request.id));
  });
}

/** Registers the tenants' portal below /portal. */
export async function registerPortal(server: SignetServer, options: PortalOptions): Promise<void> {
  await registerPages(server, options, {
    cookie: createSessionCookie(!options.development),
    register: (scope, parts) => registerSignIn(scope, parts, options.sessions),
    signInPage: signInNeeded,
  });
}

/** Registers a tenant's pages below /portal, behind an entrance. */
export async function registerPages(
  server: SignetServer,
  options: PageOptions,
  entrance: Entrance,
): Promise<void> {
  const assets = loadAssets();
  const parts = partsOf(options, assets, entrance);
  await server.register(
    async (scope: SignetServer) => {
      scope.decorateRequest("visit");
      installForms(scope);
      scope.addHook("onSend", async (_request, reply) => {
        for (const [name, value] of Object.entries(HEADERS)) {
          if (!reply.hasHeader(name)) {
            reply.header(name, value);
          }
        }
      });
      scope.addHook("preHandler", async (request) => {
        if (changes(request) && request.routeOptions.config.portal !== undefined) {
          requireFormToken(request);
        }
      });
      installFailures(scope, parts, entrance);
      assets.register(scope);
      entrance.register(scope, parts);
      registerHomePage(scope, parts);
      registerEndpointPages(scope, parts);
      registerDeliveryPages(scope, parts);
      registerDeadLetterPages(scope, parts);
      registerEventTypePages(scope, parts);
      registerCredentialPages(scope, parts);
      registerCompliancePages(scope, parts);
    },
    { prefix: "/portal" },
  );
}
