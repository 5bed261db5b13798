/** What each error means, in a sentence: on its page, and in the OpenAPI document. */
import type { ErrorCode } from "../errors.ts";

export const ERROR_DESCRIPTIONS: Readonly<Record<ErrorCode, string>> = {
  INVALID_REQUEST:
    "The request could not be read: malformed JSON, a member or header given twice, an unknown query parameter or cursor.",
  UNSUPPORTED_GRANT_TYPE: "The token endpoint knows the grant type client_credentials only.",
  INVALID_SCOPE: "A scope was asked for that the client does not have, or that is not well formed.",
  INVALID_TARGET: "The resource that the token was asked for is not known.",
  UNAUTHORIZED_CLIENT: "The client may not use this grant type.",
  INVALID_CLIENT: "The client could not be authenticated. All reasons get the same answer.",
  TOKEN_MISSING: "The address needs an access token in the Authorization header: Bearer <token>.",
  TOKEN_INVALID: "The access token is not one of ours, was changed, or is meant for somebody else.",
  TOKEN_EXPIRED: "The access token has expired. Tokens live for 15 minutes; ask for a new one.",
  TOKEN_REVOKED: "The access token, or what it was issued to, has been revoked.",
  CLIENT_CERT_REQUIRED:
    "The address needs mutual TLS, and no client certificate came that is trusted here, in time and made for clients.",
  CERT_BINDING_MISMATCH:
    "The access token belongs to another client certificate than the one of this connection. Ask for a token with it.",
  SIGNATURE_INVALID:
    "The producer's signature is missing where it is required, does not match the body, or its key is not good any more. All reasons get the same answer.",
  PAYLOAD_EXPIRED:
    "The signed payload is older than 300 seconds. Sign the same event anew and send it again.",
  TIMESTAMP_MISMATCH:
    "The signed payload's time lies more than 60 seconds ahead, or sent_at in the body is not what the header says.",
  SCOPE_VIOLATION: "The access token lacks a scope that the address needs; missing_permission names it.",
  REGION_MISMATCH: "The access token is for another region than the address.",
  TENANT_SUSPENDED: "The tenant is suspended.",
  NOT_FOUND: "There is nothing at this address, or nothing that the caller may see.",
  METHOD_NOT_ALLOWED:
    "The address exists and does not take this method; the header Allow names those it takes.",
  REQUEST_TIMEOUT: "The request did not arrive in time.",
  CONFLICT: "Something with the same name exists already.",
  INVALID_STATE: "What the request names is not in a state that allows it.",
  IDEMPOTENCY_KEY_REUSED: "The Idempotency-Key was used before with another body.",
  REPLAY_CONFLICT: "The same key signed another event with this id in the past 15 minutes.",
  DLQ_ENTRY_EXPIRED: "The dead letter is older than seven days and cannot be replayed any more.",
  PAYLOAD_TOO_LARGE: "The body is larger than the address takes.",
  URI_TOO_LONG: "The address is too long.",
  UNSUPPORTED_MEDIA_TYPE: "The body must be application/json, without a content encoding.",
  VALIDATION_FAILED: "Members of the body are missing, unknown or wrong; errors lists them by JSON pointer.",
  TARGET_URL_FORBIDDEN: "The target URL leads where deliveries are not sent.",
  LIMIT_EXCEEDED: "A limit of the tenant is reached.",
  RATE_LIMITED: "Too many requests; Retry-After says when to try again.",
  HEADERS_TOO_LARGE: "The request has too many or too large headers.",
  INTERNAL: "Something went wrong on our side. The request_id leads to it in our log.",
  UNAVAILABLE: "The service cannot answer at the moment; Retry-After says when to try again.",
  REVOCATION_STALE:
    "Whether the access token was revoked cannot be told at the moment, so it is refused; Retry-After says when to try again.",
};
