/**
 * The edge's server for one route table. Tables are immutable: a new table gets a new server, and running requests end
 * on the server on which they began.
 */
import type { FastifyRequest } from "fastify";
import type { IncomingHttpHeaders } from "node:http";
import { createAdmission, createScopeGuard } from "#tokens/guards/authentication.ts";
import { registerHealthRoutes } from "#http/health.ts";
import { installRequestTracing } from "#http/plugins/request-tracing.ts";
import { createServer } from "#http/server.ts";
import type { SignetServer } from "#http/types.ts";
import type { CheckingProxy } from "#config/edge-settings.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import type { Cells } from "#domain/regions.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { createIdentitySigner } from "#lib/edge-identity/sign.ts";
import { PROBLEM_HEADER } from "#http/mutual-tls/client-cert-header.ts";
import type { ClientIdentification } from "#http/mutual-tls/client-identification.ts";
import type { VerifyToken } from "#tokens/oauth/verify-access-token.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { addressKey } from "#http/rate-limits/address-key.ts";
import type { Admitted } from "./admitted.ts";
import { withAdmissionInstant } from "./admission-instant.ts";
import { API_BODY_LIMIT, API_ROUTES } from "./api-routes.ts";
import { createClientCertHeaders } from "./client-cert.ts";
import type { Dispatchers, Target, UpstreamConnections } from "./dispatchers.ts";
import { checkedTarget, registerCheckedRoutes } from "./checked-routes.ts";
import { registerProxiedRoutes } from "./proxied-routes.ts";
import { checkParameters, checkRequest, routedTarget } from "./request-checks.ts";
import type { EdgeRoute, RouteTable, Upstream } from "./route-table.ts";
import { Shares } from "#domain/shares.ts";

/** Defaults for limits that the table does not set. */
export interface EdgeLimits {
  readonly connectTimeoutMs: number;
  readonly headersTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Maximum size of a request body, in bytes. */
  readonly bodyLimit: number;
}

/** The connection to the api. */
export interface ApiLink {
  readonly origin: string;
  readonly connections: UpstreamConnections;
}

export interface GatewayServices {
  /** The kind of proxy whose requests are checked but not forwarded; `off` for an edge that forwards. */
  readonly checks: CheckingProxy | "off";
  /** Base URL of the problem types. */
  readonly baseUrl: string;
  readonly clients: ClientIdentification;
  /** Verifies a token and checks that it is not revoked, with a recent list of revocations. */
  readonly admit: VerifyToken;
  /** Aborts running requests when their token is revoked. */
  readonly admitted: Admitted;
  /** Whether tokens without a bound certificate are rejected. */
  readonly bindingRequired: boolean;
  readonly dispatchers: Dispatchers;
  /** Absent if the edge serves only the data plane. */
  readonly api?: ApiLink | undefined;
  readonly limits: EdgeLimits;
  /** Set if regions have cells of their own. */
  readonly cells?: Cells | undefined;
  readonly readiness: readonly ReadinessCheck[];
  readonly clock: Clock;
  readonly timers: Timers;
  /** For tests: clock for the time of admission, which responses report. */
  readonly admissionInstant?: (() => bigint) | undefined;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

/** Maximum concurrent requests per tenant and upstream: half of its connections. */
const TENANT_SHARE = 256;
/** Maximum concurrent requests to the api per address: an eighth of its connections. */
const ADDRESS_SHARE = 256;
const ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;
/** Metric label of requests without a route. */
const NO_ROUTE = "none";

/** Returns the connection target of an upstream. */
function targetOf(upstream: Upstream, limits: EdgeLimits): Target {
  return {
    origin: upstream.origin,
    connectTimeoutMs: upstream.connectTimeoutMs ?? limits.connectTimeoutMs,
    headersTimeoutMs: upstream.headersTimeoutMs ?? limits.headersTimeoutMs,
    idleTimeoutMs: upstream.idleTimeoutMs ?? limits.idleTimeoutMs,
    ...(upstream.ca === undefined ? {} : { tls: { ca: upstream.ca } }),
  };
}

/** Returns the connection targets of a table. */
export function targetsOf(table: RouteTable, { checks, limits }: GatewayServices): readonly Target[] {
  return checks === "off" ? table.map(({ upstream }) => targetOf(upstream, limits)) : [];
}

/** Returns the function that signs the caller's identity for an upstream. */
function identitySigner({ upstream }: EdgeRoute, clock: Clock) {
  const sign = createIdentitySigner(upstream.identityKey);
  return (request: FastifyRequest) =>
    sign(request.identity, {
      requestId: request.id,
      iat: Math.floor(clock.now() / 1_000),
      method: request.method,
      target: request.raw.url ?? "",
    });
}

function dataPlaneHeaders(route: EdgeRoute, clock: Clock) {
  const identityOf = identitySigner(route, clock);
  return (request: FastifyRequest, kept: IncomingHttpHeaders): IncomingHttpHeaders => {
    if (!route.forwardAuthorization) {
      delete kept.authorization;
    }
    return Object.assign(kept, identityOf(request));
  };
}

function guardOf({ scopes, regions }: EdgeRoute) {
  return { scopes, ...(regions === undefined ? {} : { regions }) };
}

function registerDataPlane(server: SignetServer, table: RouteTable, services: GatewayServices): void {
  const { dispatchers, limits, admitted, clock, timers, log } = services;
  const shares = new Map(table.map(({ upstream }) => [upstream.name, new Shares(TENANT_SHARE)]));
  for (const route of table) {
    const { methods, path, upstream, bodyLimit } = route;
    registerProxiedRoutes(server, log, {
      methods,
      paths: [path],
      config: guardOf(route),
      upstream: upstream.name,
      origin: upstream.origin,
      connections: dispatchers.to(targetOf(upstream, limits)),
      bodyLimit: bodyLimit ?? limits.bodyLimit,
      shares: shares.get(upstream.name) as Shares,
      callerOf: ({ identity }) => identity.tenantId,
      admitted,
      headersFor: dataPlaneHeaders(route, clock),
      timers,
    });
  }
}

function registerApi(server: SignetServer, api: ApiLink, timers: Timers, log: Logger): void {
  const certificateHeaders = createClientCertHeaders();
  registerProxiedRoutes(server, log, {
    methods: ALL_METHODS,
    paths: API_ROUTES,
    config: { public: true },
    upstream: "api",
    origin: api.origin,
    connections: api.connections,
    bodyLimit: API_BODY_LIMIT,
    ownRequestIds: true,
    timers,
    shares: new Shares(ADDRESS_SHARE),
    callerOf: ({ clientAddress }) => addressKey(clientAddress),
    headersFor: (request, kept) => {
      kept["x-forwarded-for"] = request.clientAddress;
      const { clientCertificate: certificate, clientCertificateProblem: problem } = request;
      if (certificate !== undefined) {
        return Object.assign(kept, certificateHeaders(certificate));
      }
      if (problem !== undefined) {
        kept[PROBLEM_HEADER] = problem;
      }
      return kept;
    },
  });
}

/** Other paths, also those of the edge's own health checks, are a 404: a 200 would let the proxy forward them. */
function registerChecks(server: SignetServer, table: RouteTable, clock: Clock): void {
  registerCheckedRoutes(
    server,
    table.map((route) => ({
      ...route,
      config: guardOf(route),
      identityOf: identitySigner(route, clock),
    })),
  );
}

function countRequests(server: SignetServer): void {
  const counters = new Map<string, { inc(): void }>();
  server.addHook("onResponse", (request, reply, done) => {
    const route = request.routeOptions.url ?? NO_ROUTE;
    const by = request.answeredByUpstream ? "upstream" : "edge";
    const key = `${route} ${reply.statusCode} ${by}`;
    let counter = counters.get(key);
    if (counter === undefined) {
      counter = metrics.edgeRequests.labels(route, String(reply.statusCode), by);
      counters.set(key, counter);
    }
    counter.inc();
    done();
  });
}

/** Creates the server of a table, without listening. */
export async function createGateway(table: RouteTable, services: GatewayServices): Promise<SignetServer> {
  const { checks, baseUrl, clients, admit, bindingRequired, admissionInstant, api, clock, randomBytes, log } =
    services;
  const scopes = createScopeGuard({
    verify: admit,
    binding: { bindingRequired },
    admit: createAdmission(undefined, services.cells),
  });
  const server = createServer({
    baseUrl,
    guards: {
      scopes: admissionInstant === undefined ? scopes : withAdmissionInstant(scopes, admissionInstant),
    },
    clients,
    clock,
    randomBytes,
    log,
    rewriteUrl: checks === "off" ? routedTarget : checkedTarget(checks),
  });
  server.decorateRequest("forwardedAt", 0);
  server.decorateRequest("answeredByUpstream", false);
  server.decorateRequest("passage");
  server.addHook("onRequest", (request, _reply, done) => {
    checkRequest(request.raw);
    checkParameters(request.params as Record<string, string>);
    done();
  });
  installRequestTracing(server);
  countRequests(server);
  if (checks === "off") {
    registerHealthRoutes(server, services.readiness);
    registerDataPlane(server, table, services);
  } else {
    registerChecks(server, table, clock);
  }
  if (api !== undefined) {
    registerApi(server, api, services.timers, log);
  }
  await server.ready();
  return server;
}
