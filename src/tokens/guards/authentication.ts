/** The guard of tenants' routes: a Bearer token in the Authorization header (RFC 6750 section 2.1), and its scopes. */
import { timingSafeEqual } from "node:crypto";
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from "fastify";
import { SignetError } from "#domain/errors.ts";
import { type Cells, EVERY_REGION, requireOwnCell } from "#domain/regions.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import { scopeViolation, tokenMisplaced, tokenMissing, tokenRefused } from "#http/bearer-errors.ts";
import type { VerifyToken } from "../oauth/verify-access-token.ts";
import type { Identity } from "#domain/identity.ts";
import { signatureInvalid } from "../producers/authenticate-producer.ts";
import type { TenantLimits } from "#http/rate-limits/tenant-limits.ts";
import type { TenantPolicy } from "#http/rate-limits/tenant-policies.ts";
import type { AdmitRequest } from "./admission.ts";
import type { IngressValidator } from "./ingress-validator.ts";

const BEARER_SCHEME = /^Bearer(?![!#$%&'*+.^_`|~0-9a-z-])/i;
const BEARER = /^Bearer +([^ ]+)$/i;

/** Returns the token from the request's Authorization header, whose scheme must be Bearer. */
export function bearerToken(request: FastifyRequest): string {
  const query = request.query as Readonly<Record<string, unknown>> | undefined;
  if (query?.["access_token"] !== undefined) {
    throw tokenMisplaced();
  }
  const { authorization } = request.headers;
  // RFC 6750 section 3 defines no error for another scheme.
  if (authorization === undefined || !BEARER_SCHEME.test(authorization)) {
    throw tokenMissing();
  }
  const token = BEARER.exec(authorization)?.[1];
  if (token === undefined) {
    throw tokenRefused("TOKEN_INVALID", "The Authorization header must be: Bearer <token>.");
  }
  return token;
}

/** Returns the name of a request in errors: method and path template. */
export function operationOf(request: FastifyRequest): string {
  const { method, url } = request.routeOptions;
  return `${String(method)} ${url?.replaceAll(/:(\w+)/g, "{$1}") ?? ""}`;
}

interface BindingPolicy {
  /** Whether tokens without a certificate are rejected; false only in development. */
  readonly bindingRequired: boolean;
}

function isSame(left: string, right: string): boolean {
  const [a, b] = [Buffer.from(left), Buffer.from(right)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/**
 * Checks a certificate-bound access token (RFC 8705 section 3), usable only with the certificate's key.
 *
 * @throws SignetError `CERT_BINDING_MISMATCH` if the token belongs to another certificate, or lacks a required one
 */
function requireBoundCertificate(
  { certificateThumbprint }: Pick<Identity, "certificateThumbprint">,
  certificate: ClientCertificate | undefined,
  { bindingRequired }: BindingPolicy,
): void {
  if (certificateThumbprint === undefined) {
    if (bindingRequired) {
      throw tokenRefused("CERT_BINDING_MISMATCH", "The access token is not bound to a client certificate.");
    }
    return;
  }
  if (certificate === undefined || !isSame(certificateThumbprint, certificate.x5t)) {
    throw tokenRefused(
      "CERT_BINDING_MISMATCH",
      "The access token is bound to a client certificate that this request does not use.",
    );
  }
}

/**
 * @throws SignetError if the route excludes the token's region: `MISDIRECTED_REQUEST` if another cell serves it,
 *   otherwise `REGION_MISMATCH`
 */
function requireRegion(request: FastifyRequest, cells: Cells | undefined): void {
  const { regions } = request.routeOptions.config;
  const { region } = request.identity;
  if (regions !== undefined && region !== EVERY_REGION && !regions.includes(region)) {
    if (cells !== undefined) {
      requireOwnCell(cells, region, undefined);
    }
    throw new SignetError("REGION_MISMATCH", {
      detail: `${operationOf(request)} is for region ${regions.join(" or ")}; the access token is for ${region}.`,
      extensions: { required_regions: regions, token_region: region },
    });
  }
}

/** @throws SignetError `UNAVAILABLE` for a tenant that was created in the home cell only a moment ago */
function requireKnown({ region }: TenantPolicy): void {
  if (region === undefined) {
    throw new SignetError("UNAVAILABLE", {
      detail: "This cell does not know the tenant yet. Send the request again in a second.",
      headers: { "retry-after": "1" },
    });
  }
}

/** Creates the guard of a route from its required scopes. */
export type ScopeGuard = (required: readonly string[]) => onRequestHookHandler;

function requireScopes(request: FastifyRequest, required: readonly string[], cells: Cells | undefined): void {
  const { scopes: granted } = request.identity;
  // Nearly every request passes, so the name of the operation is built only for errors.
  const violation = required.every((scope) => granted.has(scope))
    ? undefined
    : scopeViolation({ operation: operationOf(request), required, granted });
  if (violation !== undefined) {
    throw violation;
  }
  requireRegion(request, cells);
}

/**
 * Creates the admission.
 *
 * @param limits the tenants' rates, if this process keeps them
 * @param cells set if regions have cells of their own
 */
export function createAdmission(limits?: TenantLimits, cells?: Cells): AdmitRequest {
  if (limits === undefined) {
    return (request, _reply, required) => requireScopes(request, required, cells);
  }
  function admit(
    request: FastifyRequest,
    reply: FastifyReply,
    { required, policy }: { readonly required: readonly string[]; readonly policy: TenantPolicy },
  ): void {
    const { tenantId, credentialId, region } = request.identity;
    const { signatures, tenantRate, home } = request.routeOptions.config;
    if (cells !== undefined && home !== true) {
      requireOwnCell(cells, region, policy.region);
      requireKnown(policy);
    }
    limits?.admit(tenantId, policy, tenantRate ?? "api", reply);
    if (signatures === true && request.signer === undefined && policy.signing.has(credentialId)) {
      throw signatureInvalid("This credential must sign what it publishes: a token alone is not sufficient.");
    }
    requireScopes(request, required, cells);
  }
  return (request, reply, required) => {
    const policy = limits.policyOf(request.identity.tenantId);
    return policy instanceof Promise
      ? policy.then((read) => admit(request, reply, { required, policy: read }))
      : admit(request, reply, { required, policy });
  };
}

export interface ScopeGuardOptions {
  readonly verify: VerifyToken;
  readonly binding: BindingPolicy;
  readonly admit: AdmitRequest;
  /** Set if the server accepts signatures. */
  readonly ingress?: IngressValidator | undefined;
}

/** Creates the guards of routes that declare `scopes`. */
export function createScopeGuard({ verify, binding, admit, ingress }: ScopeGuardOptions): ScopeGuard {
  function identify(request: FastifyRequest, identity: Identity): void {
    request.identity = identity;
    requireBoundCertificate(identity, request.clientCertificate, binding);
    ingress?.requireSameCredential(request);
  }

  async function guardSlowly(
    request: FastifyRequest,
    reply: FastifyReply,
    { required, verifying }: { required: readonly string[]; verifying: Promise<Identity> | undefined },
  ): Promise<void> {
    if (verifying === undefined && (await ingress?.begin(request)) === true) {
      return;
    }
    identify(request, await (verifying ?? verify(bearerToken(request))));
    await admit(request, reply, required);
  }

  return (required) =>
    function guard(request, reply, done) {
      const identity = ingress?.takes(request) === true ? undefined : verify(bearerToken(request));
      if (identity === undefined || identity instanceof Promise) {
        guardSlowly(request, reply, { required, verifying: identity }).then(() => done(), done);
        return;
      }
      identify(request, identity);
      const admitted = admit(request, reply, required);
      if (admitted instanceof Promise) {
        admitted.then(() => done(), done);
        return;
      }
      done();
    };
}
