/**
 * What every route must say about itself, checked when it is registered: who may call it, and a closed schema for
 * whatever it reads. A route that forgets keeps the process from starting.
 */
import type {
  onRequestAsyncHookHandler,
  onRequestHookHandler,
  onSendHookHandler,
  preValidationAsyncHookHandler,
  RouteOptions,
} from "fastify";
import { Type } from "typebox";
import { isOperatorRole, OPERATOR_ROLES, type OperatorRole } from "../../domain/operator-roles.ts";
import { OAUTH_PATHS } from "../oauth-error.ts";
import type { PublicRate } from "../rate-limits/public-rate.ts";
import type { SignetServer } from "../types.ts";
import { requireClientCertificate } from "./client-certificates.ts";

export interface RouteGuards {
  /** The guard of a route that needs these scopes; absent on a server without tenants. */
  readonly scopes?: (required: readonly string[]) => onRequestHookHandler;
  /** What guards a route that takes signatures too, when its body is there; absent where none are taken. */
  readonly signatures?: (required: readonly string[]) => preValidationAsyncHookHandler;
  /** The guard of a page of the portal that needs these scopes; absent on a server without a portal. */
  readonly portal?: (required: readonly string[]) => onRequestAsyncHookHandler;
  /** The guard of a route for operators of this role; absent on the public server. */
  readonly operator?: (required: OperatorRole) => onRequestAsyncHookHandler;
  /** The rate of an address for what everybody may read; absent where nothing is counted. */
  readonly open?: PublicRate;
}

const NO_QUERY = Type.Object({}, { additionalProperties: false });

/** Where load balancers and orchestrators ask. */
export const PROBES: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

/** The server gives every GET a HEAD of its own, with the same declarations. */
function isReading({ method }: Pick<RouteOptions, "method">): boolean {
  return method === "GET" || method === "HEAD";
}

function routeName(route: RouteOptions): string {
  return `${String(route.method)} ${route.url}`;
}

/** Reading is what every operator may do; whatever else a method does needs a role of its own. */
function requireSufficientRole(route: RouteOptions, role: OperatorRole): void {
  if (!isOperatorRole(role)) {
    throw new Error(`${routeName(route)}: config.operator must be one of ${OPERATOR_ROLES.join(", ")}`);
  }
  const changes = !isReading(route);
  if (role === "read" && changes) {
    throw new Error(`${routeName(route)}: only a GET can be left to operators who may read`);
  }
  if ((route.config?.audits !== undefined) !== changes) {
    throw new Error(
      `${routeName(route)}: a change by operators, and nothing else, must declare config.audits`,
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

/** Probes come as often as they like, and the OAuth endpoints count for themselves. */
function guardOfPublic(
  { config, url }: RouteOptions,
  { open }: RouteGuards,
): onRequestHookHandler | undefined {
  if (open === undefined || PROBES.has(url) || OAUTH_PATHS.has(url) || config?.proxied === true) {
    return undefined;
  }
  return (request, _reply, done) => {
    open.take(request.clientAddress);
    done();
  };
}

/** Long documents count as several requests; their length is known only when they are sent. */
function chargeLength(route: RouteOptions, { open }: RouteGuards): void {
  if (open === undefined || route.config?.public !== true || route.config.proxied === true) {
    return;
  }
  const charge: onSendHookHandler = (request, reply, _payload, done) => {
    open.charge(request.clientAddress, Number(reply.getHeader("content-length") ?? 0));
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

/** What its caller alone may read; a cache would keep it beyond a revocation. Routes that allow more say so themselves. */
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

/** Where a token is given out or taken: mutual TLS is asked for there (security decisions B). */
function needsCertificate(route: RouteOptions): boolean {
  return route.config?.scopes !== undefined || OAUTH_PATHS.has(route.url);
}

function requireClosed(route: RouteOptions, part: "body" | "querystring" | "params"): void {
  const schema = route.schema?.[part] as { type?: string; additionalProperties?: unknown } | undefined;
  if (schema?.type === "object" && schema.additionalProperties !== false) {
    throw new Error(`${routeName(route)}: the ${part} schema must have additionalProperties: false`);
  }
}

/** A signature covers the body: what it is checked for comes after the body. */
function guardAfterBody(route: RouteOptions, { signatures }: RouteGuards): void {
  if (route.config?.signatures === true && signatures !== undefined) {
    const guard = signatures(route.config.scopes ?? []);
    route.preValidation = [guard, ...[route.preValidation ?? []].flat()];
  }
}

/** Checks every route that is registered after this call and puts its guard in front of it. */
export function installRouteDeclarations(server: SignetServer, guards: RouteGuards): void {
  server.addHook("onRoute", (route) => {
    const guard = guardOf(route, guards);
    const own = [
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
