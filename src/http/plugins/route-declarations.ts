/**
 * Checks each route's declarations at registration: its callers, and closed schemas for its input. A missing
 * declaration prevents the process from starting.
 */
import type {
  onRequestAsyncHookHandler,
  onRequestHookHandler,
  onSendHookHandler,
  preValidationAsyncHookHandler,
  RouteOptions,
} from "fastify";
import { Type } from "typebox";
import { isOperatorRole, OPERATOR_ROLES, type OperatorRole } from "#domain/operator-roles.ts";
import { type Cells, isAway, misdirected } from "#domain/regions.ts";
import { OAUTH_PATHS } from "../oauth-error.ts";
import type { PublicRate } from "../rate-limits/public-rate.ts";
import type { SignetServer } from "../types.ts";
import { requireClientCertificate } from "./client-certificates.ts";

export interface RouteGuards {
  /** Creates the guard of a route with scopes; absent on a server without tenants. */
  readonly scopes?: (required: readonly string[]) => onRequestHookHandler;
  /**
   * Creates the guard of a route that also accepts signatures, to run after the body is read; absent without
   * signatures.
   */
  readonly signatures?: (required: readonly string[]) => preValidationAsyncHookHandler;
  /** Creates the guard of a portal page with scopes; absent on a server without a portal. */
  readonly portal?: (required: readonly string[]) => onRequestAsyncHookHandler;
  /** Creates the guard of a route for an operator role; absent on the public server. */
  readonly operator?: (required: OperatorRole) => onRequestAsyncHookHandler;
  /** Rate limit of public routes per address; absent for no limit. */
  readonly open?: PublicRate;
  /** Set if regions have cells of their own. */
  readonly cells?: Cells | undefined;
}

const NO_QUERY = Type.Object({}, { additionalProperties: false });

/** The probes of load balancers and orchestrators. */
export const PROBES: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

/** Checks for GET, or the HEAD that the server adds to every GET with the same declarations. */
function isReading({ method }: Pick<RouteOptions, "method">): boolean {
  return method === "GET" || method === "HEAD";
}

function routeName(route: RouteOptions): string {
  return `${String(route.method)} ${route.url}`;
}

/** Checks the role of an operator route: only reads may have the role `read`. */
function requireSufficientRole(route: RouteOptions, role: OperatorRole): void {
  if (!isOperatorRole(role)) {
    throw new Error(`${routeName(route)}: config.operator must be one of ${OPERATOR_ROLES.join(", ")}`);
  }
  const changes = !isReading(route);
  if (role === "read" && changes) {
    throw new Error(`${routeName(route)}: only a GET may have the role read`);
  }
  const { audits } = route.config ?? {};
  if (changes ? audits === undefined : audits !== undefined && audits !== "tenant.read") {
    throw new Error(
      `${routeName(route)}: config.audits is required for changes by operators, and can only be tenant.read otherwise`,
    );
  }
}

function chosenGuard({ config }: RouteOptions, guards: RouteGuards) {
  const { scopes = [], portal, operator } = config ?? {};
  if (portal !== undefined) {
    return guards.portal?.(portal);
  }
  return operator === undefined ? guards.scopes?.(scopes) : guards.operator?.(operator);
}

/**
 * Returns the rate limit of a public route; undefined if it has none. Probes are unlimited, and the OAuth endpoints have
 * their own limits.
 */
function rateOfPublic({ config, url }: RouteOptions, { open }: RouteGuards): PublicRate | undefined {
  const limited =
    config?.public === true && config.proxied !== true && !PROBES.has(url) && !OAUTH_PATHS.has(url);
  return limited ? open : undefined;
}

function guardOfPublic(route: RouteOptions, guards: RouteGuards): onRequestHookHandler | undefined {
  const rate = rateOfPublic(route, guards);
  return (
    rate &&
    ((request, _reply, done) => {
      rate.take(request.clientAddress);
      done();
    })
  );
}

/** Counts long documents as several requests, when they are sent and their length is known. */
function chargeLength(route: RouteOptions, guards: RouteGuards): void {
  const rate = rateOfPublic(route, guards);
  if (rate === undefined) {
    return;
  }
  const charge: onSendHookHandler = (request, reply, _payload, done) => {
    rate.charge(request.clientAddress, Number(reply.getHeader("content-length") ?? 0));
    done();
  };
  route.onSend = [charge, ...[route.onSend ?? []].flat()];
}

function guardOf(
  route: RouteOptions,
  guards: RouteGuards,
): onRequestAsyncHookHandler | onRequestHookHandler | undefined {
  const { scopes, portal, operator, public: open } = route.config ?? {};
  const declared = [scopes, portal, operator, open].filter((declaration) => declaration !== undefined);
  if (declared.length !== 1) {
    throw new Error(
      `${routeName(route)} must declare one of config.scopes, config.portal, config.operator, config.public`,
    );
  }
  if (open === true) {
    return guardOfPublic(route, guards);
  }
  if (operator !== undefined) {
    requireSufficientRole(route, operator);
  }
  const guard = chosenGuard(route, guards);
  if (guard === undefined) {
    throw new Error(`${routeName(route)} cannot be served here: this server has no such guard`);
  }
  return guard;
}

/** Checks for a read that only its caller may see, and that a cache could keep beyond a revocation. */
function isPrivateReading({ method, config }: RouteOptions): boolean {
  return (
    isReading({ method }) &&
    config?.proxied !== true &&
    (config?.scopes !== undefined || config?.operator !== undefined)
  );
}

const forbidStoring: onRequestHookHandler = (_request, reply, done) => {
  reply.header("cache-control", "no-store");
  done();
};

/** Checks for a route that issues or accepts tokens, which requires mutual TLS (security decisions B). */
function needsCertificate(route: RouteOptions): boolean {
  return route.config?.scopes !== undefined || OAUTH_PATHS.has(route.url);
}

function requireClosed(route: RouteOptions, part: "body" | "querystring" | "params"): void {
  const schema = route.schema?.[part] as { type?: string; additionalProperties?: unknown } | undefined;
  if (schema?.type === "object" && schema.additionalProperties !== false) {
    throw new Error(`${routeName(route)}: the ${part} schema must have additionalProperties: false`);
  }
}

/** Adds the guard for signatures after the body is read, since a signature covers the body. */
function guardAfterBody(route: RouteOptions, { signatures }: RouteGuards): void {
  if (route.config?.signatures === true && signatures !== undefined) {
    const guard = signatures(route.config.scopes ?? []);
    route.preValidation = [guard, ...[route.preValidation ?? []].flat()];
  }
}

/**
 * Returns the hook that sends callers of a route of the home cell there. Public documents redirect, since they need no
 * token and clients follow; anything else gets 421.
 */
function leadHome(
  { method, config }: RouteOptions,
  { cells }: RouteGuards,
): onRequestHookHandler | undefined {
  if (config?.home !== true || !isAway(cells)) {
    return undefined;
  }
  if (config.public === true && isReading({ method })) {
    return (request, reply) => {
      reply.redirect(`${cells.home.url}${request.url}`, 307);
    };
  }
  return (_request, _reply, done) => {
    done(misdirected(cells.home, "Only the home cell serves this."));
  };
}

/** Checks every route registered after this call and adds its guards. */
export function installRouteDeclarations(server: SignetServer, guards: RouteGuards): void {
  server.addHook("onRoute", (route) => {
    const guard = guardOf(route, guards);
    const home = leadHome(route, guards);
    const own = [
      ...(home === undefined ? [] : [home]),
      ...(needsCertificate(route) ? [requireClientCertificate] : []),
      ...(guard === undefined ? [] : [guard]),
      ...(isPrivateReading(route) ? [forbidStoring] : []),
    ];
    route.onRequest = [...own, ...[route.onRequest ?? []].flat()];
    guardAfterBody(route, guards);
    chargeLength(route, guards);
    if (route.config?.proxied === true) {
      return;
    }
    if (route.url.includes(":") && route.schema?.params === undefined) {
      throw new Error(`${routeName(route)} must have a schema for its path parameters`);
    }
    route.schema = { ...route.schema, querystring: route.schema?.querystring ?? NO_QUERY };
    requireClosed(route, "body");
    requireClosed(route, "querystring");
    requireClosed(route, "params");
  });
}
