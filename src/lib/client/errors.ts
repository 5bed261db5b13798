/** The errors of this library. None ever contains a secret or a token. */

/** A problem document (RFC 9457), or the error of an OAuth endpoint (RFC 6749 section 5.2), as it came. */
export type Problem = Readonly<Record<string, unknown>>;

/** Facts about an answer other than its problem. */
export interface ApiErrorContext {
  readonly status: number;
  readonly requestId: string | null;
  readonly problem: Problem;
  /** Requested wait, in milliseconds; null if none. */
  readonly retryAfterMs: number | null;
  /** What the caller can do, as sentences that this library adds to the message. */
  readonly advice?: string;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function codeOf(status: number, problem: Problem): string {
  return text(problem["code"]) ?? text(problem["error"])?.toUpperCase() ?? `HTTP_${status}`;
}

/** The service rejected the request. */
export class SignetApiError extends Error {
  override readonly name = "SignetApiError";
  readonly status: number;
  /** A stable code of the service's catalogue, for instance `SCOPE_VIOLATION`; `HTTP_<status>` if it names none. */
  readonly code: string;
  /** The request's id for support; null if the answer did not come from the service. */
  readonly requestId: string | null;
  readonly problem: Problem;
  readonly retryAfterMs: number | null;

  constructor({ status, requestId, problem, retryAfterMs, advice }: ApiErrorContext) {
    const code = codeOf(status, problem);
    const detail = text(problem["detail"]) ?? text(problem["error_description"]) ?? text(problem["title"]);
    const request = requestId === null ? "" : ` (request ${requestId})`;
    const added = advice === undefined ? "" : ` ${advice}`;
    super(`${code}: ${detail ?? `HTTP ${status}`}${added}${request}`);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.problem = problem;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Why there is no usable answer. */
export type TransportFailure = "CONNECTION" | "TIMEOUT" | "INVALID_ANSWER";

/** No answer, or not the service's. The request may or may not have been executed. */
export class SignetTransportError extends Error {
  override readonly name = "SignetTransportError";
  readonly code: TransportFailure;

  constructor(code: TransportFailure, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** The credential is missing or unreadable. */
export class CredentialStoreError extends Error {
  override readonly name = "CredentialStoreError";
}
