/** What calls of this library reject with. None of these ever holds a secret or a token. */

/** A problem document (RFC 9457), or the error of an OAuth endpoint (RFC 6749 section 5.2), as it came. */
export type Problem = Readonly<Record<string, unknown>>;

/** What an answer says about itself besides its problem. */
export interface ApiErrorContext {
  readonly status: number;
  readonly requestId: string | null;
  readonly problem: Problem;
  /** Milliseconds that the service asks to wait; null when it does not. */
  readonly retryAfterMs: number | null;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function codeOf(status: number, problem: Problem): string {
  return text(problem["code"]) ?? text(problem["error"])?.toUpperCase() ?? `HTTP_${status}`;
}

/** The service has answered, and the answer is no. */
export class SignetApiError extends Error {
  override readonly name = "SignetApiError";
  readonly status: number;
  /** A stable code of the service's catalogue, for instance `SCOPE_VIOLATION`; `HTTP_<status>` when it names none. */
  readonly code: string;
  /** What support asks for; null when the answer did not come from the service. */
  readonly requestId: string | null;
  readonly problem: Problem;
  readonly retryAfterMs: number | null;

  constructor({ status, requestId, problem, retryAfterMs }: ApiErrorContext) {
    const code = codeOf(status, problem);
    const detail = text(problem["detail"]) ?? text(problem["error_description"]) ?? text(problem["title"]);
    const request = requestId === null ? "" : ` (request ${requestId})`;
    super(`${code}: ${detail ?? `HTTP ${status}`}${request}`);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.problem = problem;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Why there is no answer that could be used. */
export type TransportFailure = "CONNECTION" | "TIMEOUT" | "INVALID_ANSWER";

/** No answer, or one that is not the service's. Whether the request was carried out is not known. */
export class SignetTransportError extends Error {
  override readonly name = "SignetTransportError";
  readonly code: TransportFailure;

  constructor(code: TransportFailure, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** The credential cannot be read, or there is none. */
export class CredentialStoreError extends Error {
  override readonly name = "CredentialStoreError";
}
