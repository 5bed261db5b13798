/** Why an identity header was rejected. */
export type EdgeIdentityErrorCode =
  | "IDENTITY_MISSING"
  | "IDENTITY_MALFORMED"
  | "SIGNATURE_INVALID"
  | "IDENTITY_EXPIRED";

/** The request did not come from the edge unchanged. Answer 401 and do not process it. */
export class EdgeIdentityError extends Error {
  override readonly name = "EdgeIdentityError";
  readonly code: EdgeIdentityErrorCode;

  constructor(code: EdgeIdentityErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
