/** The guard of tenants' routes: a Bearer token in the Authorization header (RFC 6750 section 2.1), then its scopes. */
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from "fastify";
import { SignetError } from "../../errors.ts";
import { scopeViolation, tokenMisplaced, tokenMissing, tokenRefused } from "../../oauth/bearer-errors.ts";
import { type BindingPolicy, requireBoundCertificate } from "../../oauth/certificate-bound-token.ts";
import type { Identity, VerifyToken } from "../../oauth/verify-access-token.ts";
import type { TenantLimits } from "../../rate-limits/tenant-limits.ts";

/** A principal without region affinity. */
const EVERY_REGION = "global";
const BEARER = /^Bearer +([^ ]+)$/i;

/** The credentials of the request's Authorization header, which must be Bearer. */
export function bearerToken(request: FastifyRequest): string {
  const query = request.query as Readonly<Record<string, unknown>> | undefined;
  if (query?.["access_token"] !== undefined) {
    throw tokenMisplaced();
  }
  const { authorization } = request.headers;
  if (authorization === undefined) {
    throw tokenMissing();
  }
  const token = BEARER.exec(authorization)?.[1];
  if (token === undefined) {
    throw tokenRefused("TOKEN_INVALID", "The Authorization header must be: Bearer <token>.");
  }
  return token;
}

/** A request as errors name it: method and path template. */
export function operationOf(request: FastifyRequest): string {
  const { method, url } = request.routeOptions;
  return `${String(method)} ${url?.replaceAll(/:(\w+)/g, "{$1}") ?? ""}`;
}

/** @throws SignetError `REGION_MISMATCH` when the route is for other regions than the token's */
function requireRegion(request: FastifyRequest): void {
  const { regions } = request.routeOptions.config;
  const { region } = request.identity;
  if (regions !== undefined && region !== EVERY_REGION && !regions.includes(region)) {
    throw new SignetError("REGION_MISMATCH", {
      detail: `${operationOf(request)} is for region ${regions.join(" or ")}; the access token is for ${region}.`,
      extensions: { required_regions: regions, token_region: region },
    });
  }
}

/** Makes the guard of a route from the scopes that it needs. */
export type ScopeGuard = (required: readonly string[]) => onRequestHookHandler;

/** Makes the guards of routes that declare `scopes`. `limits` are the tenants' rates, where this process keeps them. */
export function createScopeGuard(
  verify: VerifyToken,
  binding: BindingPolicy,
  limits?: TenantLimits,
): ScopeGuard {
  function admit(request: FastifyRequest, identity: Identity): void {
    request.identity = identity;
    requireBoundCertificate(identity, request.clientCertificate, binding);
  }

  function requireScopes(request: FastifyRequest, required: readonly string[]): void {
    const { scopes: granted } = request.identity;
    // Nearly every request passes: what it would be called in an error is made up for those that do not.
    const violation = required.every((scope) => granted.has(scope))
      ? undefined
      : scopeViolation({ operation: operationOf(request), required, granted });
    if (violation !== undefined) {
      throw violation;
    }
    requireRegion(request);
  }

  async function guardSlowly(
    request: FastifyRequest,
    reply: FastifyReply,
    verifying: Identity | Promise<Identity>,
  ): Promise<void> {
    admit(request, await verifying);
    if (limits !== undefined) {
      const { tenantId } = request.identity;
      const policy = await limits.policyOf(tenantId);
      limits.admit(tenantId, policy, request.routeOptions.config.tenantRate ?? "api", reply);
    }
  }

  return (required) =>
    function guard(request, reply, done) {
      const identity = verify(bearerToken(request));
      if (identity instanceof Promise || limits !== undefined) {
        guardSlowly(request, reply, identity)
          .then(() => requireScopes(request, required))
          .then(() => done(), done);
        return;
      }
      admit(request, identity);
      requireScopes(request, required);
      done();
    };
}
