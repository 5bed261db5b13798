/**
 * The operators' console on the operators' listener: the portal's pages in the view of an operator, with an overview, a
 * search over tenants, and explanations. Operators sign in with their token or certificate. They view one tenant at a
 * time, read-only and without content; the tenant's compliance log has an entry. They may revoke and hold.
 */
import type { onRequestAsyncHookHandler } from "fastify";
import { SignetError } from "#domain/errors.ts";
import type { Identity } from "#domain/identity.ts";
import { scopeViolation } from "#http/bearer-errors.ts";
import { OPERATOR_ROLES } from "#domain/operator-roles.ts";
import { requireRole } from "#api/admin/operator-guard.ts";
import type { SignetServer } from "#http/types.ts";
import type { OperatorSession } from "#tokens/operators/operator-sessions.ts";
import type { SignedIn } from "#tokens/portal-sessions.ts";
import { operationOf } from "#tokens/guards/authentication.ts";
import { type PageOptions, SEE_OTHER } from "../context.ts";
import { SessionCookie } from "../cookie.ts";
import { requireOwnOrigin } from "../forms.ts";
import { CONSOLE_SCOPE } from "../layout.ts";
import { changes, registerPages } from "../portal.ts";
import { Visit } from "../visit.ts";
import { type ConsoleOptions, originOf } from "./console-options.ts";
import { registerConsolePages } from "./console-pages.ts";
import { registerTargetPages } from "./target-pages.ts";
import { operatorSignIn, registerOperatorSignIn } from "./operator-sign-in.ts";

/** Scopes of a view of a tenant. None of them changes anything, and none opens the data of events. */
const VIEW_SCOPES = ["webhooks:read", "credentials:read", "compliance:read"] as const;

/** Returns the session as the tenant's pages expect it. Without a viewed tenant, its tenant id is empty. */
function signedIn({ hash, identity, name, viewed, createdAt, expiresAt }: OperatorSession): SignedIn {
  const scopes = [
    ...[...identity.permissions].map((permission) => `operator:${permission}`),
    ...(viewed === undefined ? [] : VIEW_SCOPES),
  ];
  const grant = {
    tenantId: viewed?.id ?? "",
    principalId: identity.id,
    credentialId: identity.id,
    clientId: name,
    region: "global",
    jti: "",
    kid: "",
    issuedAt: Math.floor(createdAt.getTime() / 1_000),
    certificateThumbprint: undefined,
  };
  const caller: Identity = { ...grant, scopes: new Set(scopes) };
  const session = { ...grant, scopes, tenantName: viewed?.name ?? "", createdAt, expiresAt };
  return { session, identity: caller, hash };
}

function readOnly(): SignetError {
  return new SignetError("SCOPE_VIOLATION", { detail: "Operators view a tenant read-only." });
}

/** Creates the guard of the console's pages. */
export function createConsoleGuard({
  operators,
  access,
  api,
  calls,
  temporal,
  brands,
  development,
}: ConsoleOptions): (required: readonly string[]) => onRequestAsyncHookHandler {
  const cookie = new SessionCookie({ secure: !development, kind: "operator" });
  return (required) => async (request, reply) => {
    const secret = cookie.read(request);
    const session = await operators.find(secret, request.clientAddress, request.clientCertificate);
    if (secret === undefined || session === undefined) {
      throw new SignetError("TOKEN_MISSING", { detail: "You are not signed in, or your session has ended." });
    }
    const { name, expiresAt, identity, viewed } = session;
    const visitor = { ...signedIn(session), secret };
    request.operatorSession = session;
    request.operator = identity;
    request.visit = new Visit(request, visitor, {
      server: api(),
      calls,
      temporal,
      brand: brands.installation,
      operator: { name, expiresAt },
    });
    const ofConsole = required.includes(CONSOLE_SCOPE);
    if (!ofConsole && viewed === undefined) {
      return await reply.redirect("/portal/operator", SEE_OTHER);
    }
    if (changes(request)) {
      requireOwnOrigin(request, originOf(request));
      if (!ofConsole) {
        throw readOnly();
      }
    }
    for (const role of OPERATOR_ROLES.filter((name) => required.includes(`operator:${name}`))) {
      await requireRole(access, request, role);
    }
    const granted = visitor.identity.scopes;
    const violation = scopeViolation({ operation: operationOf(request), required, granted });
    if (violation !== undefined) {
      throw violation;
    }
    return undefined;
  };
}

/** Registers the console below /portal on the operators' listener. */
export async function registerConsole(server: SignetServer, options: ConsoleOptions): Promise<void> {
  const { operators, development } = options;
  const cookie = new SessionCookie({ secure: !development, kind: "operator" });
  server.decorateRequest("operatorSession");
  const sessions: PageOptions["sessions"] = {
    find: async (secret, address) => {
      const session = await operators.find(secret, address, null);
      return session?.viewed === undefined ? undefined : signedIn(session);
    },
    // Each request and each stream looks its session up, which ends with the operator's rights.
    isAdmitted: async () => await Promise.resolve(true),
  };
  const pages: PageOptions = {
    ...options,
    sessions,
    exportDeadLetters: async () => await Promise.reject(readOnly()),
    portalUrl: "",
  };
  await registerPages(server, pages, {
    cookie,
    register: (scope, parts) => {
      registerOperatorSignIn(scope, parts, options);
      registerConsolePages(scope, parts, options);
      registerTargetPages(scope, parts, options);
    },
    signInPage: operatorSignIn,
  });
  server.get("/", { config: { public: true }, schema: { hide: true } }, (_request, reply) =>
    reply.redirect("/portal/operator", SEE_OTHER),
  );
}
