/** Why an identity header is not believed. */
export type EdgeIdentityErrorCode =
  | "IDENTITY_MISSING"
  | "IDENTITY_MALFORMED"
  | "SIGNATURE_INVALID"
  | "IDENTITY_EXPIRED";

/** The request did not come from the edge as it stands. Answer 401 and do not look at it any further. */
export class EdgeIdentityError extends Error {
  override readonly name = "EdgeIdentityError";
  readonly code: EdgeIdentityErrorCode;

  constructor(code: EdgeIdentityErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
