/** The guard of tenants' routes: a Bearer token in the Authorization header (RFC 6750 section 2.1), then its scopes. */
import type { FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import { SignetError } from "../../errors.ts";
import type { Identity } from "../types.ts";

/** Checks an access token; throws `TOKEN_INVALID`, `TOKEN_EXPIRED` or `TOKEN_REVOKED`. */
export type VerifyToken = (token: string) => Promise<Identity>;

const BEARER = /^Bearer +([^ ]+)$/i;

function challenge(error?: string): Readonly<Record<string, string>> {
  const realm = 'Bearer realm="service"';
  return { "www-authenticate": error === undefined ? realm : `${realm}, error="${error}"` };
}

/** A 401 for a token that was given and is not good (RFC 6750 section 3.1). */
export function tokenRefused(
  code: "TOKEN_INVALID" | "TOKEN_EXPIRED" | "TOKEN_REVOKED",
  options: { readonly detail: string; readonly cause?: unknown },
): SignetError {
  return new SignetError(code, { ...options, headers: challenge("invalid_token") });
}

/** The token of the request. */
export function bearerToken(request: FastifyRequest): string {
  const query = request.query as Readonly<Record<string, unknown>> | undefined;
  if (query?.["access_token"] !== undefined) {
    throw new SignetError("INVALID_REQUEST", {
      detail: "Access tokens are taken from the Authorization header only.",
      headers: challenge("invalid_request"),
    });
  }
  const { authorization } = request.headers;
  if (authorization === undefined) {
    throw new SignetError("TOKEN_MISSING", {
      detail: "Send an access token: Authorization: Bearer <token>.",
      headers: challenge(),
    });
  }
  const token = BEARER.exec(authorization)?.[1];
  if (token === undefined) {
    throw tokenRefused("TOKEN_INVALID", { detail: "The Authorization header must be: Bearer <token>." });
  }
  return token;
}

function scopeViolation(
  request: FastifyRequest,
  required: readonly string[],
  missing: readonly string[],
): SignetError {
  const { method, url } = request.routeOptions;
  return new SignetError("SCOPE_VIOLATION", {
    detail: `${String(method)} ${url?.replaceAll(/:(\w+)/g, "{$1}") ?? ""} requires scope ${required.join(" ")}.`,
    extensions: {
      missing_permission: missing.join(" "),
      missing_scopes: missing,
      required_scopes: required,
      granted_scopes: [...request.identity.scopes],
    },
    headers: {
      "www-authenticate": `Bearer realm="service", error="insufficient_scope", scope="${required.join(" ")}"`,
    },
  });
}

/** Makes the guards of routes that declare `scopes`. */
export function createScopeGuard(
  verify: VerifyToken,
): (required: readonly string[]) => onRequestAsyncHookHandler {
  return (required) => async (request) => {
    request.identity = await verify(bearerToken(request));
    const missing = required.filter((scope) => !request.identity.scopes.has(scope));
    if (missing.length > 0) {
      throw scopeViolation(request, required, missing);
    }
  };
}
