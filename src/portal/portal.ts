/**
 * The tenant portal, an encapsulated part of the api process. Its pages are clients of the public API: they call the same
 * routes as other clients, on behalf of the session. A portal route declares the scopes that it requires, and the API's
 * routes check scopes again.
 */
import type { FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import { toSignetError } from "#http/framework-errors.ts";
import { operationOf } from "#tokens/guards/authentication.ts";
import type { SignetServer } from "#http/types.ts";
import { SignetError } from "#domain/errors.ts";
import { failureOfRequest, noRouteOf } from "#http/plugins/allowed-methods.ts";
import { scopeViolation } from "#http/bearer-errors.ts";
import { Assets } from "./assets.ts";
import type { PageOptions, PortalOptions } from "./context.ts";
import type { PortalServices } from "./page-parts.ts";
import { SessionCookie } from "./cookie.ts";
import { installForms, requireFormToken, requireOwnOrigin } from "./forms.ts";
import { document, type PageContent } from "./layout.ts";
import { problemPage, signInNeeded } from "./pages/problems.ts";
import { registerCompliancePages } from "./pages/compliance.ts";
import { registerCredentialPages } from "./pages/credentials.ts";
import { registerDeadLetterPages } from "./pages/dead-letters.ts";
import { registerDeliveryPages } from "./pages/deliveries.ts";
import { registerEndpointPages } from "./pages/endpoints.ts";
import { registerEventTypePages } from "./pages/event-types.ts";
import { registerEventPages } from "./pages/events.ts";
import { registerHomePage } from "./pages/home.ts";
import { registerSearch } from "./pages/search.ts";
import { registerSignIn } from "./pages/sign-in.ts";
import { Visit } from "./visit.ts";

const HTML = "text/html; charset=utf-8";
const HEADERS = {
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  // Do not use no-referrer, because browsers then send forms with Origin: null.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
} as const;

/** Returns the headers of every page. Only listed origins may show it in a frame. */
function headersOf({ frameOrigins }: PageOptions): Readonly<Record<string, string>> {
  const ancestors = frameOrigins.length === 0 ? "'none'" : frameOrigins.join(" ");
  return {
    ...HEADERS,
    "content-security-policy": `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors ${ancestors}; base-uri 'none'`,
    // It knows no origins.
    ...(frameOrigins.length === 0 ? { "x-frame-options": "DENY" } : {}),
  };
}

function cookieOf({ development, frameOrigins }: PortalOptions): SessionCookie {
  return new SessionCookie({ secure: !development, framed: frameOrigins.length > 0 });
}

/** How visitors sign in, and which pages they have in addition to the tenant's. */
export interface Entrance {
  readonly cookie: SessionCookie;
  readonly register: (scope: SignetServer, parts: PortalServices) => void;
  /** Renders the page for visitors without a session. */
  readonly signInPage: (request: FastifyRequest) => PageContent | Promise<PageContent>;
}

function partsOf(options: PageOptions, assets: Assets, { cookie }: Entrance): PortalServices {
  return {
    ...options,
    assets,
    cookie,
    send: (reply, visit, content) => {
      const brand = visit?.brand ?? content.brand ?? options.brands.installation;
      return reply.type(HTML).send(document(assets, brand, visit, content));
    },
  };
}

/** Checks whether a request submits a form. */
export function changes({ method }: { readonly method: string }): boolean {
  return method !== "GET" && method !== "HEAD";
}

/** Creates the guard of the portal's pages. Without a session, the page says how to get one. */
export function createPortalGuard(
  server: () => SignetServer,
  options: PortalOptions,
): (required: readonly string[]) => onRequestAsyncHookHandler {
  const { sessions, calls, temporal, brands, portalUrl } = options;
  const cookie = cookieOf(options);
  const { origin } = new URL(portalUrl);
  return (required) => async (request) => {
    const secret = cookie.read(request);
    const signedIn = await sessions.find(secret, request.clientAddress);
    if (secret === undefined || signedIn === undefined) {
      throw new SignetError("TOKEN_MISSING", { detail: "You are not signed in, or your session has ended." });
    }
    const brand = await brands.of(signedIn.identity.tenantId);
    request.visit = new Visit(request, { ...signedIn, secret }, { server: server(), calls, temporal, brand });
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

function installFailures(scope: SignetServer, { send }: PortalServices, { signInPage }: Entrance): void {
  scope.setNotFoundHandler((request) => {
    throw noRouteOf(request);
  });
  scope.setErrorHandler(async (thrown, request, reply) => {
    const error = toSignetError(failureOfRequest(thrown, request));
    if (error.status >= 500) {
      request.log.error(
        { request_id: request.id, code: error.code, err: error.cause ?? error },
        "page failed",
      );
    }
    const { visit } = request as { visit?: Visit };
    reply.code(error.status);
    // A failed download must not be saved as a file.
    reply.removeHeader("content-disposition");
    for (const name of ["retry-after", "allow"]) {
      const value = error.headers[name];
      if (value !== undefined) {
        reply.header(name, value);
      }
    }
    if (error.code !== "TOKEN_MISSING") {
      return send(reply, visit, problemPage(error, request.id));
    }
    return send(reply, undefined, await signInPage(request));
  });
}

/** Registers the tenants' portal below /portal. */
export async function registerPortal(server: SignetServer, options: PortalOptions): Promise<void> {
  const { brands, development } = options;
  const cookie = cookieOf(options);
  await registerPages(server, options, {
    cookie,
    register: (scope, parts) => registerSignIn(scope, parts, options.sessions),
    signInPage: async (request) =>
      signInNeeded({ brand: await brands.ofSecret(cookie.read(request)), development }),
  });
}

/** Registers a tenant's pages below /portal, behind an entrance. */
export async function registerPages(
  server: SignetServer,
  options: PageOptions,
  entrance: Entrance,
): Promise<void> {
  const assets = new Assets();
  const parts = partsOf(options, assets, entrance);
  const headers = headersOf(options);
  await server.register(
    async (scope: SignetServer) => {
      scope.decorateRequest("visit");
      installForms(scope);
      scope.addHook("onSend", async (_request, reply) => {
        for (const [name, value] of Object.entries(headers)) {
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
      options.brands.register(scope);
      entrance.register(scope, parts);
      registerHomePage(scope, parts);
      registerEndpointPages(scope, parts);
      registerDeliveryPages(scope, parts);
      registerDeadLetterPages(scope, parts);
      registerEventPages(scope, parts);
      registerEventTypePages(scope, parts);
      registerCredentialPages(scope, parts);
      registerCompliancePages(scope, parts);
      registerSearch(scope, parts);
    },
    { prefix: "/portal" },
  );
}
