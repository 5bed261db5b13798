/** Errors of the OAuth endpoints (RFC 6749 section 5.2), with the service's code and request id. */
import type { ErrorCode, SignetError } from "#domain/errors.ts";

const OAUTH_NAMES: Partial<Readonly<Record<ErrorCode, string>>> = {
  INVALID_CLIENT: "invalid_client",
  CLIENT_CERT_REQUIRED: "invalid_client",
  UNAUTHORIZED_CLIENT: "unauthorized_client",
  UNSUPPORTED_GRANT_TYPE: "unsupported_grant_type",
  INVALID_SCOPE: "invalid_scope",
  INVALID_TARGET: "invalid_target",
  TOKEN_INVALID: "invalid_token",
  TOKEN_EXPIRED: "invalid_token",
  TOKEN_REVOKED: "invalid_token",
  CERT_BINDING_MISMATCH: "invalid_token",
  SCOPE_VIOLATION: "insufficient_scope",
  CLOCK_SKEWED: "temporarily_unavailable",
  REVOCATION_STALE: "temporarily_unavailable",
  RATE_LIMITED: "temporarily_unavailable",
  UNAVAILABLE: "temporarily_unavailable",
  INTERNAL: "server_error",
};

/** The headers of every response of an OAuth endpoint. */
export const OAUTH_HEADERS = {
  "content-type": "application/json;charset=UTF-8",
  "cache-control": "no-store",
  pragma: "no-cache",
} as const;

/** The paths whose errors have this format. */
export const OAUTH_PATHS: ReadonlySet<string> = new Set([
  "/v1/auth/token",
  "/v1/auth/revoke",
  "/v1/auth/introspect",
]);

/**
 * Replaces characters that RFC 6749 section 5.2 forbids: all but printable ASCII, the quotation mark, the backslash.
 */
function describable(text: string): string {
  return text.replaceAll('"', "'").replaceAll(/[^\x20-\x5b\x5d-\x7e]/g, "?");
}

/** Returns the body of an OAuth error. */
export function oauthErrorBody(error: SignetError, requestId: string): Record<string, string> {
  return {
    error: OAUTH_NAMES[error.code] ?? "invalid_request",
    error_description: describable(error.message),
    code: error.code,
    request_id: requestId,
  };
}
