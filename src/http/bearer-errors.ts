/** Errors for a missing, invalid or insufficient token (RFC 6750 section 3). */
import { SignetError } from "#domain/errors.ts";

const REALM = 'Bearer realm="service"';

/** Returns a 401 without an error attribute, for a request without a token. */
export function tokenMissing(): SignetError {
  return new SignetError("TOKEN_MISSING", {
    detail: "Send an access token: Authorization: Bearer <token>.",
    headers: { "www-authenticate": REALM },
  });
}

/** Returns a 401 for an invalid token. */
export function tokenRefused(
  code:
    | "TOKEN_INVALID"
    | "TOKEN_EXPIRED"
    | "TOKEN_REVOKED"
    | "CERT_BINDING_MISMATCH"
    | "CLIENT_CERT_REQUIRED",
  detail: string,
  cause?: unknown,
): SignetError {
  return new SignetError(code, {
    detail,
    cause,
    headers: { "www-authenticate": `${REALM}, error="invalid_token"` },
  });
}

/** Returns a 400 for a token outside the Authorization header. */
export function tokenMisplaced(): SignetError {
  return new SignetError("INVALID_REQUEST", {
    detail: "Access tokens are only accepted in the Authorization header.",
    headers: { "www-authenticate": `${REALM}, error="invalid_request"` },
  });
}

export interface ScopeCheck {
  /** The operation, for instance `POST /v1/events`. */
  readonly operation: string;
  readonly required: readonly string[];
  readonly granted: ReadonlySet<string>;
  /** Replaces the default sentence about scopes. */
  readonly detail?: string;
  /** Additional members of the problem document. */
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/**
 * Returns a 403 `SCOPE_VIOLATION` with the missing permission (contract 7), or undefined if the scopes suffice.
 */
export function scopeViolation(check: ScopeCheck): SignetError | undefined {
  const { operation, required, granted } = check;
  const missing = required.filter((scope) => !granted.has(scope));
  if (missing.length === 0) {
    return undefined;
  }
  return new SignetError("SCOPE_VIOLATION", {
    detail: check.detail ?? `${operation} requires scope ${required.join(" ")}.`,
    extensions: {
      missing_permission: missing.join(" "),
      missing_scopes: missing,
      required_scopes: required,
      granted_scopes: [...granted],
      ...check.extensions,
    },
    headers: { "www-authenticate": `${REALM}, error="insufficient_scope", scope="${required.join(" ")}"` },
  });
}
