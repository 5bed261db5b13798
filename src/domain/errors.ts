/**
 * The catalogue of errors. Every failure visible to a caller has a stable code and one HTTP status
 * (security decisions J). Problem documents, OAuth errors and Temporal failures are built from it.
 */

/** Codes with the status and the title of their problem type. */
export const ERROR_CATALOGUE = {
  INVALID_REQUEST: { status: 400, title: "Invalid request" },
  UNSUPPORTED_GRANT_TYPE: { status: 400, title: "Unsupported grant type" },
  INVALID_SCOPE: { status: 400, title: "Invalid scope" },
  INVALID_TARGET: { status: 400, title: "Invalid target" },
  UNAUTHORIZED_CLIENT: { status: 400, title: "Unauthorized client" },
  INVALID_CLIENT: { status: 401, title: "Invalid client" },
  TOKEN_MISSING: { status: 401, title: "Token missing" },
  TOKEN_INVALID: { status: 401, title: "Token invalid" },
  TOKEN_EXPIRED: { status: 401, title: "Token expired" },
  TOKEN_REVOKED: { status: 401, title: "Token revoked" },
  CLIENT_CERT_REQUIRED: { status: 401, title: "Client certificate required" },
  CERT_BINDING_MISMATCH: { status: 401, title: "Certificate binding mismatch" },
  SIGNATURE_INVALID: { status: 401, title: "Signature invalid" },
  PAYLOAD_EXPIRED: { status: 401, title: "Payload expired" },
  TIMESTAMP_MISMATCH: { status: 401, title: "Timestamp mismatch" },
  SCOPE_VIOLATION: { status: 403, title: "Scope violation" },
  REGION_MISMATCH: { status: 403, title: "Region mismatch" },
  TENANT_SUSPENDED: { status: 403, title: "Tenant suspended" },
  NOT_FOUND: { status: 404, title: "Not found" },
  METHOD_NOT_ALLOWED: { status: 405, title: "Method not allowed" },
  REQUEST_TIMEOUT: { status: 408, title: "Request timeout" },
  CONFLICT: { status: 409, title: "Conflict" },
  INVALID_STATE: { status: 409, title: "Invalid state" },
  IDEMPOTENCY_KEY_REUSED: { status: 409, title: "Idempotency key reused" },
  REPLAY_CONFLICT: { status: 409, title: "Replay conflict" },
  DLQ_ENTRY_EXPIRED: { status: 410, title: "Dead-letter entry expired" },
  PAYLOAD_TOO_LARGE: { status: 413, title: "Payload too large" },
  URI_TOO_LONG: { status: 414, title: "URI too long" },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: "Unsupported media type" },
  MISDIRECTED_REQUEST: { status: 421, title: "Misdirected request" },
  VALIDATION_FAILED: { status: 422, title: "Validation failed" },
  TARGET_URL_FORBIDDEN: { status: 422, title: "Target URL forbidden" },
  LIMIT_EXCEEDED: { status: 422, title: "Limit exceeded" },
  RATE_LIMITED: { status: 429, title: "Rate limited" },
  HEADERS_TOO_LARGE: { status: 431, title: "Headers too large" },
  INTERNAL: { status: 500, title: "Internal error" },
  UNAVAILABLE: { status: 503, title: "Unavailable" },
  CLOCK_SKEWED: { status: 503, title: "Clock skewed" },
  REVOCATION_STALE: { status: 503, title: "Revocation stale" },
} as const satisfies Record<string, { status: number; title: string }>;

export type ErrorCode = keyof typeof ERROR_CATALOGUE;

/** One member of a problem's `errors`: the JSON pointer into the body or the parameter, and the problem. */
export interface FieldProblem {
  readonly pointer: string;
  readonly code: string;
  readonly detail: string;
}

/** Optional parts of an error. */
export interface SignetErrorOptions {
  /** Shown to the caller; must not hold secrets or internals. */
  readonly detail?: string;
  /** Members added to the problem document, for instance `missing_permission`. */
  readonly extensions?: Readonly<Record<string, unknown>>;
  /** Response headers, for instance `WWW-Authenticate`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For the log only. */
  readonly cause?: unknown;
}

/** The only error class that crosses module boundaries. `code` is public API and determines `status`. */
export class SignetError extends Error {
  override readonly name = "SignetError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly extensions: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, options: SignetErrorOptions = {}) {
    super(
      options.detail ?? ERROR_CATALOGUE[code].title,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.code = code;
    this.status = ERROR_CATALOGUE[code].status;
    this.extensions = options.extensions ?? {};
    this.headers = options.headers ?? {};
  }
}

/** A name or another value that must be unique is taken. The message is for the caller. Reported as `CONFLICT`. */
export class DuplicateError extends Error {
  override readonly name = "DuplicateError";
}

/** Creates the 404 for an unknown address. */
export function nothingHere(): SignetError {
  return new SignetError("NOT_FOUND", { detail: "There is nothing at this address." });
}

/** Creates the 404 for a resource, for instance `endpoint`, that the caller does not have. */
export function noSuch(what: string): SignetError {
  return new SignetError("NOT_FOUND", { detail: `There is no such ${what}.` });
}

/**
 * Creates a 429 with Retry-After (RFC 6585 section 4).
 *
 * @param waitMs wait, in milliseconds
 */
export function tooManyRequests(waitMs: number, detail: string): SignetError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1_000));
  return new SignetError("RATE_LIMITED", { detail, headers: { "retry-after": String(seconds) } });
}

/** Returns the resource. @throws SignetError NOT_FOUND if it is undefined */
export function found<Resource>(resource: Resource | undefined, noun: string): Resource {
  if (resource === undefined) {
    throw noSuch(noun);
  }
  return resource;
}

const HELD = {
  secrets: "its endpoints' secrets cannot change, and new ones cannot be created.",
  authentication: "its endpoints' authentication cannot change.",
};

/** A tenant's hold forbids a change of its endpoints. */
export class TenantHeldError extends SignetError {
  constructor(part: keyof typeof HELD, cause: unknown) {
    super("INVALID_STATE", { detail: `The tenant is on hold: ${HELD[part]}`, cause });
  }
}

/** Creates a 422 that lists every invalid field. */
export function validationFailed(errors: readonly FieldProblem[]): SignetError {
  return new SignetError("VALIDATION_FAILED", {
    detail: errors.map((problem) => `${problem.pointer || "/"} ${problem.detail}`).join("; "),
    extensions: { errors },
  });
}

/** Creates a 400 that lists every invalid parameter. A pointer is `/` and the parameter's name. */
export function invalidParameters(
  errors: readonly FieldProblem[],
  part: "Header" | "Query parameter" = "Query parameter",
): SignetError {
  const sentences = errors.map(({ pointer, detail }) => `${part} ${pointer.slice(1)} ${detail}.`);
  return new SignetError("INVALID_REQUEST", { detail: sentences.join(" "), extensions: { errors } });
}

/** Returns the slug of the problem type: `SCOPE_VIOLATION` is documented at `/errors/scope-violation`. */
export function errorSlug(code: ErrorCode): string {
  return code.toLowerCase().replaceAll("_", "-");
}
