/** What each error means, where it comes from and what to do: on its page, and in the OpenAPI document. */
import type { ErrorCode } from "../domain/errors.ts";

export interface ErrorDescription {
  /** In a sentence or two. */
  readonly meaning: string;
  readonly causes: readonly string[];
  /** What whoever gets the error can do. */
  readonly remedies: readonly string[];
}

export const ERROR_DESCRIPTIONS: Readonly<Record<ErrorCode, ErrorDescription>> = {
  INVALID_REQUEST: {
    meaning:
      "The request could not be read: malformed JSON, a member or header given twice, an unknown query parameter or cursor.",
    causes: [
      "A member of the body, a header or a query parameter is there twice.",
      "A query parameter or a cursor is not one of the address, or a cursor comes from another list.",
      "The body is not UTF-8, or not JSON.",
      "Two ways of authentication were used at once.",
    ],
    remedies: [
      "Read detail: it names what could not be read.",
      "Send each member once, and cursors exactly as next_cursor gave them.",
    ],
  },
  UNSUPPORTED_GRANT_TYPE: {
    meaning: "The token endpoint knows the grant type client_credentials only.",
    causes: ["grant_type is missing or another one."],
    remedies: ["Send grant_type=client_credentials."],
  },
  INVALID_SCOPE: {
    meaning: "A scope was asked for that the client does not have, or that is not well formed.",
    causes: [
      "The client's role does not hold one of the scopes.",
      "Scopes are not separated by single spaces.",
    ],
    remedies: [
      "Leave scope out: the token then holds everything that the client may have.",
      "Ask an operator to give the scope to the role and to reprovision the principal.",
    ],
  },
  INVALID_TARGET: {
    meaning: "The resource that the token was asked for is not known.",
    causes: ["resource names an API that this service issues no tokens for."],
    remedies: ["Leave resource out, or ask an operator which values are known."],
  },
  UNAUTHORIZED_CLIENT: {
    meaning: "The client may not use this grant type.",
    causes: ["The client is set up for another way to get tokens."],
    remedies: ["Ask an operator which grant type the client is for."],
  },
  INVALID_CLIENT: {
    meaning: "The client could not be authenticated. All reasons get the same answer.",
    causes: [
      "client_id or client_secret is wrong, or was cut when it was copied.",
      "The secret was rotated and is retired, or the credential was revoked.",
      "The certificate of the connection is not the one that the credential is registered with.",
    ],
    remedies: [
      "Compare the client_id with the list of credentials.",
      "If the secret is lost, make another credential: a secret is shown once only.",
      "Connect with the registered certificate.",
    ],
  },
  TOKEN_MISSING: {
    meaning: "The address needs an access token in the Authorization header: Bearer <token>.",
    causes: ["No Authorization header was sent, or a proxy has removed it.", "The scheme is not Bearer."],
    remedies: ["Get a token at POST /v1/auth/token and send it as Authorization: Bearer <token>."],
  },
  TOKEN_INVALID: {
    meaning: "The access token is not one of ours, was changed, or is meant for somebody else.",
    causes: [
      "The token was cut or changed on its way.",
      "It comes from another environment, with another issuer or audience.",
      "A one-time link of the portal was used before, or is over.",
    ],
    remedies: ["Get a new token from this service.", "Check that base address and token belong together."],
  },
  TOKEN_EXPIRED: {
    meaning: "The access token has expired. Tokens live for 15 minutes; ask for a new one.",
    causes: ["The token is older than 15 minutes.", "The clock of a machine is wrong."],
    remedies: ["Get a new token; the client library does so by itself.", "Keep clocks in step by NTP."],
  },
  TOKEN_REVOKED: {
    meaning: "The access token, or what it was issued to, has been revoked.",
    causes: [
      "The token, its credential, principal or tenant, the certificate or the signing key has been revoked.",
    ],
    remedies: [
      "Look at the compliance log: it says who revoked what.",
      "Make a new credential, once it is clear why the old one was revoked.",
    ],
  },
  CLIENT_CERT_REQUIRED: {
    meaning:
      "The address needs mutual TLS, and no client certificate came that is trusted here, in time and made for clients.",
    causes: [
      "The connection came without a client certificate.",
      "The certificate has run out, is not for clients, or comes from an authority that is not trusted here.",
    ],
    remedies: [
      "Connect with the certificate that the credential is registered with.",
      "Look at its dates and its extended key usage (clientAuth).",
    ],
  },
  CERT_BINDING_MISMATCH: {
    meaning:
      "The access token belongs to another client certificate than the one of this connection. Ask for a token with it.",
    causes: [
      "The certificate was renewed after the token was issued.",
      "The token is used by another machine than the one that asked for it.",
    ],
    remedies: ["Ask for a new token over the connection that will use it."],
  },
  SIGNATURE_INVALID: {
    meaning:
      "The producer's signature is missing where it is required, does not match the body, or its key is not good any more. All reasons get the same answer.",
    causes: [
      "The body was changed between signing and sending, for instance by writing its JSON again.",
      "Another secret was used, or one that is not valid any more.",
      "The signature header is missing where signatures are required.",
    ],
    remedies: [
      "Sign the exact bytes that are sent.",
      "Compare the fingerprint of the secret with the list of signing secrets.",
    ],
  },
  PAYLOAD_EXPIRED: {
    meaning: "The signed payload is older than 300 seconds. Sign the same event anew and send it again.",
    causes: ["The event waited in a queue after it was signed.", "The clock of the sender is behind."],
    remedies: [
      "Sign anew right before sending, also when a request is sent again.",
      "Keep the clock in step by NTP.",
    ],
  },
  TIMESTAMP_MISMATCH: {
    meaning:
      "The signed payload's time lies more than 60 seconds ahead, or sent_at in the body is not what the header says.",
    causes: ["The clock of the sender is ahead.", "sent_at in the body and the header hold different times."],
    remedies: ["Take one time, in Unix seconds, for both.", "Keep the clock in step by NTP."],
  },
  SCOPE_VIOLATION: {
    meaning: "The access token lacks a scope that the address needs; missing_permission names it.",
    causes: [
      "The token was asked for with fewer scopes than the request needs.",
      "The client's role does not hold the scope.",
    ],
    remedies: [
      "Read missing_permission, and ask for a token that holds it.",
      "If the client may not have it, ask an operator to give it to the role and to reprovision the principal.",
    ],
  },
  REGION_MISMATCH: {
    meaning: "The access token is for another region than the address.",
    causes: ["The principal belongs to another region than this address."],
    remedies: ["Use the address of the token's region; the claim region names it."],
  },
  TENANT_SUSPENDED: {
    meaning: "The tenant that events are published for takes none.",
    causes: ["An operator has suspended the tenant, or erased it."],
    remedies: ["Ask the operator of this service."],
  },
  NOT_FOUND: {
    meaning: "There is nothing at this address, or nothing that the caller may see.",
    causes: [
      "The id is wrong, or belongs to another tenant: both get this answer.",
      "What it names was deleted.",
      "The path is not one of the API.",
    ],
    remedies: ["Check id and path.", "List the collection to see what there is."],
  },
  METHOD_NOT_ALLOWED: {
    meaning: "The address exists and does not take this method; the header Allow names those it takes.",
    causes: ["GET was used for what is a POST, or the other way round."],
    remedies: ["Use one of the methods in Allow."],
  },
  REQUEST_TIMEOUT: {
    meaning: "The request did not arrive in time.",
    causes: ["The connection is slow or broke off while the body was sent."],
    remedies: ["Send it again, with the same Idempotency-Key."],
  },
  CONFLICT: {
    meaning: "Something with the same name exists already.",
    causes: ["Another request has made it meanwhile."],
    remedies: ["Read what exists, and use it or choose another name."],
  },
  INVALID_STATE: {
    meaning: "What the request names is not in a state that allows it.",
    causes: [
      "A delivery that is over is to be retried, cancelled or replayed.",
      "An endpoint that is disabled or not verified is to do what only an active one can.",
      "Somebody else was faster.",
    ],
    remedies: ["Read the resource again: its state says what can be done."],
  },
  IDEMPOTENCY_KEY_REUSED: {
    meaning: "The Idempotency-Key was used before with another body.",
    causes: ["One key is used for different requests."],
    remedies: ["Make a new key for every operation, and keep it only to send the same request again."],
  },
  REPLAY_CONFLICT: {
    meaning: "The same key signed another event with this id in the past 15 minutes.",
    causes: ["A signed event was changed and sent again with the same id."],
    remedies: ["Give every event an id of its own."],
  },
  DLQ_ENTRY_EXPIRED: {
    meaning: "The dead letter is older than seven days and cannot be replayed any more.",
    causes: ["The dead letter was not replayed in time."],
    remedies: [
      "Publish the event again.",
      "Follow the dead letters by their expiry, in the portal or by the API.",
    ],
  },
  PAYLOAD_TOO_LARGE: {
    meaning: "The body is larger than the address takes.",
    causes: [
      "The `data` of an event is larger than 256 KiB, a batch larger than 4 MiB or longer than 1,000 events, another body larger than 64 KiB.",
    ],
    remedies: ["Put large data elsewhere and send its address.", "Send smaller batches."],
  },
  URI_TOO_LONG: {
    meaning: "The path and query are longer than 8,192 characters.",
    causes: ["A list of ids or a filter is in the query."],
    remedies: ["Ask for less at a time."],
  },
  UNSUPPORTED_MEDIA_TYPE: {
    meaning: "The body must be application/json, without a content encoding.",
    causes: ["Content-Type is missing or another one.", "The body is compressed."],
    remedies: ["Send Content-Type: application/json and the body as it is."],
  },
  VALIDATION_FAILED: {
    meaning: "Members of the body are missing, unknown or wrong; errors lists them by JSON pointer.",
    causes: [
      "A member is misspelt: unknown members are refused, not ignored.",
      "A value has the wrong type, or lies outside its limits.",
    ],
    remedies: ["Read errors: each has the JSON pointer of a member and says what is wanted and what came."],
  },
  TARGET_URL_FORBIDDEN: {
    meaning: "The target URL leads where deliveries are not sent.",
    causes: [
      "The host is, or resolves to, an address that is private, loopback or reserved.",
      "The URL has no https, holds a user or a fragment, or a port that is not allowed.",
    ],
    remedies: [
      "Use a public https address.",
      "For trying things out on one's own machine there is signet listen, in development.",
    ],
  },
  LIMIT_EXCEEDED: {
    meaning: "A limit of the tenant is reached.",
    causes: ["The tenant has as many endpoints, credentials or links as it may have."],
    remedies: ["Delete what is not used.", "Ask the operator to raise the limit."],
  },
  RATE_LIMITED: {
    meaning: "Too many requests; Retry-After says when to try again.",
    causes: [
      "More requests came than the tenant, the client or the address may send.",
      "Too many wrong secrets were tried.",
    ],
    remedies: [
      "Wait as long as Retry-After says, then send the request again.",
      "Keep a token for its 15 minutes, and send events in batches.",
    ],
  },
  HEADERS_TOO_LARGE: {
    meaning: "The request has too many or too large headers.",
    causes: ["A proxy adds headers, or cookies have grown."],
    remedies: ["Send fewer and shorter headers."],
  },
  INTERNAL: {
    meaning: "Something went wrong on our side. The request_id leads to it in our log.",
    causes: ["A fault of this service."],
    remedies: [
      "Send the request again, with the same Idempotency-Key.",
      "If it stays, tell the operator the request_id.",
    ],
  },
  UNAVAILABLE: {
    meaning: "The service cannot answer at the moment; Retry-After says when to try again.",
    causes: ["The database is not reachable, or the service is being restarted."],
    remedies: [
      "Wait as long as Retry-After says, then send the request again with the same Idempotency-Key.",
    ],
  },
  CLOCK_SKEWED: {
    meaning: "The clock of the process is wrong, so it issues no tokens; Retry-After says when to try again.",
    causes: ["The machine's clock and the database's are more than 30 seconds apart."],
    remedies: ["Send the request again: another process may answer it.", "If it stays, tell the operator."],
  },
  REVOCATION_STALE: {
    meaning:
      "Whether the access token was revoked cannot be told at the moment, so it is refused; Retry-After says when to try again.",
    causes: ["The edge has lost its line to the list of revocations, and lets nobody in without it."],
    remedies: [
      "Send the request again: the line is mended by itself within seconds.",
      "If it stays, tell the operator.",
    ],
  },
};
