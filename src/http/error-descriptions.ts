/** The meaning, causes and remedies of each error, for its page and for the OpenAPI document. */
import { CLOCK_SKEW_MAX_MS } from "#database/database-clock.ts";
import type { ErrorCode } from "#domain/errors.ts";
import { TOKEN_LIFETIME_MINUTES } from "#domain/identity.ts";
import { DEFAULT_TOLERANCE_SECONDS } from "#lib/receiver/verify.ts";

export interface ErrorDescription {
  /** One or two sentences. */
  readonly meaning: string;
  readonly causes: readonly string[];
  /** What the caller can do. */
  readonly remedies: readonly string[];
}

export const ERROR_DESCRIPTIONS: Readonly<Record<ErrorCode, ErrorDescription>> = {
  INVALID_REQUEST: {
    meaning:
      "The request could not be read: malformed JSON, a repeated member or header, an unknown query parameter or an invalid cursor.",
    causes: [
      "A member of the body, a header or a query parameter occurs twice.",
      "The route does not know a query parameter, or a cursor is invalid or comes from another list.",
      "The body is not UTF-8, or not JSON.",
      "Two authentication methods were used at once.",
    ],
    remedies: [
      "Read detail: it names the part that could not be read.",
      "Send each member once, and each cursor exactly as next_cursor returned it.",
    ],
  },
  UNSUPPORTED_GRANT_TYPE: {
    meaning: "The token endpoint supports only the grant type client_credentials.",
    causes: ["grant_type is missing or has another value."],
    remedies: ["Send grant_type=client_credentials."],
  },
  INVALID_SCOPE: {
    meaning: "A requested scope is malformed, or the client does not have it.",
    causes: [
      "The client's role does not include one of the scopes.",
      "Scopes are not separated by single spaces.",
    ],
    remedies: [
      "Omit scope: the token then gets all scopes of the client.",
      "Ask an operator to add the scope to the role and reprovision the principal.",
    ],
  },
  INVALID_TARGET: {
    meaning: "The requested resource is unknown.",
    causes: ["resource names an API for which this service issues no tokens."],
    remedies: ["Omit resource, or ask an operator for the valid values."],
  },
  UNAUTHORIZED_CLIENT: {
    meaning: "The client may not use this grant type.",
    causes: ["The client is configured for another grant type."],
    remedies: ["Ask an operator which grant type the client may use."],
  },
  INVALID_CLIENT: {
    meaning: "The client could not be authenticated. The response does not reveal the reason.",
    causes: [
      "client_id or client_secret is wrong, or was truncated when copied.",
      "The secret was retired by a rotation, or the credential was revoked.",
      "The connection's certificate is not registered with the credential.",
    ],
    remedies: [
      "Compare the client_id with the list of credentials.",
      "If the secret is lost, create another credential: a secret is shown only once.",
      "Connect with the registered certificate.",
    ],
  },
  TOKEN_MISSING: {
    meaning: "The route requires an access token in the Authorization header: Bearer <token>.",
    causes: ["No Authorization header was sent, or a proxy removed it.", "The scheme is not Bearer."],
    remedies: ["Get a token at POST /v1/auth/token and send it as Authorization: Bearer <token>."],
  },
  TOKEN_INVALID: {
    meaning: "The access token was not issued by this service, was altered, or is for another audience.",
    causes: [
      "The token was truncated or altered in transit.",
      "The token comes from another environment, with another issuer or audience.",
      "A one-time portal link has been used already, or has expired.",
    ],
    remedies: [
      "Get a new token from this service.",
      "Check that the base URL and the token belong to the same environment.",
    ],
  },
  TOKEN_EXPIRED: {
    meaning: `The access token has expired. Tokens are valid for ${TOKEN_LIFETIME_MINUTES} minutes; request a new one.`,
    causes: [`The token is older than ${TOKEN_LIFETIME_MINUTES} minutes.`, "A machine's clock is wrong."],
    remedies: [
      "Get a new token; the client library does so automatically.",
      "Keep clocks synchronized with NTP.",
    ],
  },
  TOKEN_REVOKED: {
    meaning: "The access token, or something it depends on, has been revoked.",
    causes: [
      "The token, its credential, principal or tenant, its certificate or its signing key has been revoked.",
    ],
    remedies: [
      "Check the compliance log: it says who revoked what.",
      "Once you know why the old credential was revoked, create a new one.",
    ],
  },
  CLIENT_CERT_REQUIRED: {
    meaning: "The route requires mutual TLS, and the connection has no trusted, current client certificate.",
    causes: [
      "The connection has no client certificate.",
      "The certificate has expired, is not for clients, or comes from an untrusted authority.",
    ],
    remedies: [
      "Connect with the certificate that is registered with the credential.",
      "Check its dates and its extended key usage (clientAuth).",
    ],
  },
  CERT_BINDING_MISMATCH: {
    meaning:
      "The access token is bound to another client certificate than this connection's. Request a token with this one.",
    causes: [
      "The certificate was renewed after the token was issued.",
      "Another machine requested the token.",
    ],
    remedies: ["Request a new token over the connection that will use it."],
  },
  SIGNATURE_INVALID: {
    meaning:
      "The producer's signature is required but missing, does not match the body, or its key is no longer valid. The response does not reveal the reason.",
    causes: [
      "The body changed between signing and sending, for example because its JSON was serialized again.",
      "Another secret was used, or one that is no longer valid.",
      "Signatures are required, and the signature header is missing.",
    ],
    remedies: [
      "Sign the exact bytes that you send.",
      "Compare the fingerprint of the secret with the list of signing secrets.",
    ],
  },
  PAYLOAD_EXPIRED: {
    meaning: `The signed payload is older than ${DEFAULT_TOLERANCE_SECONDS} seconds. Sign the same event again and resend it.`,
    causes: ["The event waited in a queue after it was signed.", "The sender's clock is slow."],
    remedies: ["Sign right before sending, also before each retry.", "Keep the clock synchronized with NTP."],
  },
  TIMESTAMP_MISMATCH: {
    meaning:
      "The signed payload's time is more than 60 seconds in the future, or sent_at in the body differs from the header.",
    causes: ["The sender's clock is fast.", "sent_at in the body and the header hold different times."],
    remedies: ["Use the same time, in Unix seconds, for both.", "Keep the clock synchronized with NTP."],
  },
  SCOPE_VIOLATION: {
    meaning: "The access token lacks a scope that the route requires; missing_permission names it.",
    causes: [
      "The token was requested with fewer scopes than the route requires.",
      "The client's role does not include the scope.",
    ],
    remedies: [
      "Read missing_permission, and request a token with that scope.",
      "If the client's role lacks it, ask an operator to add it to the role and reprovision the principal.",
    ],
  },
  REGION_MISMATCH: {
    meaning: "The access token is for another region.",
    causes: ["The principal belongs to another region than this host."],
    remedies: ["Use the base URL of the token's region; the claim region names it."],
  },
  MISDIRECTED_REQUEST: {
    meaning: "Another region serves this request; base_url names its API.",
    causes: [
      "The token or its tenant belongs to another region.",
      "Only the home region serves tokens, credentials and the compliance log.",
    ],
    remedies: [
      "Send the same request to base_url.",
      "Use that base URL for all further requests of this kind.",
    ],
  },
  TENANT_SUSPENDED: {
    meaning: "The tenant is suspended or erased.",
    causes: ["An operator has suspended or erased the tenant."],
    remedies: ["Contact the operator of this service."],
  },
  NOT_FOUND: {
    meaning: "The resource does not exist, or the caller may not see it.",
    causes: [
      "The id is wrong, or belongs to another tenant.",
      "The resource was deleted.",
      "The API has no such path.",
    ],
    remedies: ["Check the id and the path.", "List the collection to see what exists."],
  },
  METHOD_NOT_ALLOWED: {
    meaning: "The path exists but does not support this method; the header Allow lists those it supports.",
    causes: ["GET was used instead of POST, or POST instead of GET."],
    remedies: ["Use one of the methods in Allow."],
  },
  REQUEST_TIMEOUT: {
    meaning: "The request did not arrive in time.",
    causes: ["The connection is slow, or broke while the body was being sent."],
    remedies: ["Retry with the same Idempotency-Key."],
  },
  CONFLICT: {
    meaning: "A resource with the same name already exists.",
    causes: ["Another request has created it in the meantime."],
    remedies: ["Use the existing resource, or choose another name."],
  },
  INVALID_STATE: {
    meaning: "The resource is not in a state that allows the request.",
    causes: [
      "The request retries, cancels or replays a delivery that has ended.",
      "The request needs an active endpoint, and this one is disabled or unverified.",
      "Another request changed the resource first.",
    ],
    remedies: ["Read the resource again: its state says what is possible."],
  },
  IDEMPOTENCY_KEY_REUSED: {
    meaning: "The Idempotency-Key has been used with another body.",
    causes: ["The same key is used for different requests."],
    remedies: ["Create a new key for every operation, and reuse it only to retry the same request."],
  },
  REPLAY_CONFLICT: {
    meaning: "The same key has signed a different event with this id in the past 15 minutes.",
    causes: ["A signed event was changed and sent again with the same id."],
    remedies: ["Give every event a unique id."],
  },
  DLQ_ENTRY_EXPIRED: {
    meaning: "The dead letter is older than seven days and can no longer be replayed.",
    causes: ["The dead letter was not replayed in time."],
    remedies: [
      "Publish the event again.",
      "Watch the expiry of dead letters, in the portal or through the API.",
    ],
  },
  PAYLOAD_TOO_LARGE: {
    meaning: "The body is larger than the route accepts.",
    causes: [
      "The `data` of an event is larger than 256 KiB.",
      "A batch is larger than 4 MiB or has more than 1,000 events.",
      "Any other body is larger than 64 KiB.",
    ],
    remedies: ["Store large data elsewhere and send its URL.", "Send smaller batches."],
  },
  URI_TOO_LONG: {
    meaning: "The path and query are longer than 8,192 characters.",
    causes: ["The query contains a long list of ids or a long filter."],
    remedies: ["Split the request into smaller ones."],
  },
  UNSUPPORTED_MEDIA_TYPE: {
    meaning: "The body must be application/json, without a content encoding.",
    causes: ["Content-Type is missing or has another value.", "The body is compressed."],
    remedies: ["Send Content-Type: application/json and an uncompressed body."],
  },
  VALIDATION_FAILED: {
    meaning: "Members of the body are missing, unknown or invalid; errors lists them by JSON pointer.",
    causes: [
      "A member is misspelt: unknown members are rejected, not ignored.",
      "A value has the wrong type, or is outside its limits.",
    ],
    remedies: [
      "Read errors: each names a member by JSON pointer and says what is expected and what was sent.",
    ],
  },
  TARGET_URL_FORBIDDEN: {
    meaning: "Deliveries may not be sent to the target URL.",
    causes: [
      "The host is, or resolves to, an address that is private, loopback or reserved.",
      "The URL is not https, contains a user or a fragment, or has a forbidden port.",
    ],
    remedies: [
      "Use a public https address.",
      "To test on your own machine, use signet listen in development.",
    ],
  },
  LIMIT_EXCEEDED: {
    meaning: "The tenant has reached a limit.",
    causes: ["The tenant has the maximum number of endpoints, credentials or links."],
    remedies: ["Delete unused resources.", "Ask the operator to raise the limit."],
  },
  RATE_LIMITED: {
    meaning: "Too many requests; Retry-After says when to retry.",
    causes: [
      "The tenant, the client or the IP address has exceeded its rate limit.",
      "Too many wrong secrets were sent.",
    ],
    remedies: [
      "Wait as long as Retry-After says, then retry.",
      `Reuse a token for its ${TOKEN_LIFETIME_MINUTES} minutes, and send events in batches.`,
    ],
  },
  HEADERS_TOO_LARGE: {
    meaning: "The request has too many headers, or headers that are too large.",
    causes: ["A proxy adds headers, or cookies have grown."],
    remedies: ["Send fewer and shorter headers."],
  },
  INTERNAL: {
    meaning: "An internal error occurred. The request_id identifies it in the service's log.",
    causes: ["This service has a fault."],
    remedies: [
      "Retry with the same Idempotency-Key.",
      "If the error persists, send the request_id to the operator.",
    ],
  },
  UNAVAILABLE: {
    meaning: "The service is temporarily unavailable; Retry-After says when to retry.",
    causes: ["The database is unreachable, or the service is restarting."],
    remedies: ["Wait as long as Retry-After says, then retry with the same Idempotency-Key."],
  },
  CLOCK_SKEWED: {
    meaning: "The process's clock is wrong, so it issues no tokens; Retry-After says when to retry.",
    causes: [
      `The machine's clock and the database's are more than ${CLOCK_SKEW_MAX_MS / 1_000} seconds apart.`,
    ],
    remedies: ["Retry: another process may answer.", "If the error persists, contact the operator."],
  },
  REVOCATION_STALE: {
    meaning:
      "The service cannot check at the moment whether the access token was revoked, so it rejects it; Retry-After says when to retry.",
    causes: [
      "The edge has lost its connection to the list of revocations, and admits no request without it.",
    ],
    remedies: [
      "Retry: the edge reconnects automatically within seconds.",
      "If the error persists, contact the operator.",
    ],
  },
};
