/** Why a signed payload was rejected. The codes are public API and stable. */
export type VerificationErrorCode =
  /** A header is missing, repeated or not in its exact format. Answer 400. */
  | "HEADERS_MALFORMED"
  /** No signature matches any of the secrets. Answer 401. */
  | "SIGNATURE_INVALID"
  /** The timestamp is older than the tolerance. Answer 401. */
  | "PAYLOAD_EXPIRED"
  /** The timestamp lies in the future, or differs from the one inside the signed body. Answer 401. */
  | "TIMESTAMP_MISMATCH"
  /** An id header differs from the id inside the signed body. Answer 401. */
  | "ID_MISMATCH"
  /** The signed body is not JSON. Only receivers reject that, `verify` does not. Answer 400. */
  | "PAYLOAD_MALFORMED";

/** Thrown by `verify`: the payload must not be used. */
export class VerificationError extends Error {
  override readonly name = "VerificationError";
  readonly code: VerificationErrorCode;

  constructor(code: VerificationErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** A request that no receiver sees. With 500 the program is at fault, otherwise the sender. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly status: 400 | 405 | 408 | 413 | 500;

  constructor(status: RequestError["status"], message: string) {
    super(message);
    this.status = status;
  }
}
