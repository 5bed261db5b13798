/** `signet/client`: the public exports of this directory. */
export { type ClientAssertion, privateKeyAssertion, type PrivateKeyOptions } from "./client-assertion.ts";
export type { Grade, GradeCheck, GradeFinding, GradeReport, GradeSummary } from "./resources/grades.ts";
export type {
  ComplianceCheckpoint,
  ComplianceEntry,
  ComplianceEntryDetails,
  ComplianceFilter,
} from "./resources/compliance.ts";
export {
  ComplianceProofError,
  type VerifiedEntry,
  type VerifyEntryOptions,
} from "../transparency-log/compliance-proof.ts";
export type { CredentialStore } from "./credential-store.ts";
export type {
  CreatedCredential,
  CreatedSigningSecret,
  Credential,
  CredentialDetails,
  NewCredential,
  Revocation,
  SigningSecret,
  RevokeOptions,
  SecretVersion,
} from "./resources/credentials.ts";
export type { DeadLetterExport } from "./resources/dead-letter-export.ts";
export type { DeadLetterGroup } from "./resources/dead-letters.ts";
export type { Attempt, DeliveryFilter } from "./resources/deliveries.ts";
export type { AttemptError, DeadLetter, Delivery, DeliveryState } from "./resources/delivery-types.ts";
export type { DeliveryStream, DeliveryStreamOptions } from "./resources/delivery-stream.ts";
export type {
  EndpointSecretVersion,
  EndpointSecretVersions,
  RotatedEndpointSecret,
  SecretRotation,
  SecretSettings,
} from "./resources/endpoint-secrets.ts";
export type {
  Authentication,
  Endpoint,
  EndpointChange,
  NewAuthentication,
  NewEndpoint,
  RegisteredEndpoint,
  TestEvent,
} from "./resources/endpoints.ts";
export type {
  EventType,
  EventTypeChange,
  EventTypeListOptions,
  EventTypeSchema,
  NewEventType,
} from "./resources/event-types.ts";
export {
  CredentialStoreError,
  type Problem,
  SignetApiError,
  SignetTransportError,
  type TransportFailure,
} from "./errors.ts";
export type {
  AcceptedEvent,
  AcceptedItem,
  BatchItem,
  EventFilter,
  NewEvent,
  RefusedItem,
  StoredEvent,
} from "./resources/events.ts";
export { FileCredentialStore, parseCredential, serializeCredential } from "./file-credential-store.ts";
export type { IdempotentOptions } from "./idempotency.ts";
export type { List, Page, PageOptions } from "./paging.ts";
export type {
  MissedEvents,
  ReplayItem,
  ReplayJob,
  ReplayPace,
  ReplaySelection,
} from "./resources/replays.ts";
export type { NewPortalLink, PortalLink } from "./resources/portal.ts";
export { RawJson } from "./raw-json.ts";
export type { RetryPolicy } from "./retry.ts";
export type { Clock, Fetch, Runtime, Warn, Warning } from "./runtime.ts";
export { SignetClient, type SignetClientOptions } from "./signet-client.ts";
export { NoteError } from "../transparency-log/signed-note.ts";
export type { StoredCredential, StoredSecret, Successor } from "./succession.ts";
export { createTlsFetch, type TlsMaterial, type TlsSource } from "./tls-fetch.ts";
export type { AccessToken } from "./token-source.ts";
export type { ConnectionOptions } from "./token-sources.ts";
export type { CallOptions } from "./transport.ts";
