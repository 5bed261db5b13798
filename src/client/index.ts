/** `signet/client`: what the package shows of this directory. */
export { type ClientAssertion, privateKeyAssertion, type PrivateKeyOptions } from "./client-assertion.ts";
export type { Grade, GradeCheck, GradeFinding, GradeReport, GradeSummary } from "./grades.ts";
export type {
  ComplianceCheckpoint,
  ComplianceEntry,
  ComplianceEntryDetails,
  ComplianceFilter,
} from "./compliance.ts";
export { ComplianceProofError, type VerifiedEntry, type VerifyEntryOptions } from "./compliance-proof.ts";
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
} from "./credentials.ts";
export type { DeadLetterExport } from "./dead-letter-export.ts";
export type { DeadLetter, DeadLetterGroup } from "./dead-letters.ts";
export type { Attempt, AttemptError, Delivery, DeliveryFilter, DeliveryState } from "./deliveries.ts";
export type { DeliveryStream, DeliveryStreamOptions } from "./delivery-stream.ts";
export type {
  EndpointSecretVersion,
  EndpointSecretVersions,
  RotatedEndpointSecret,
  SecretRotation,
  SecretSettings,
} from "./endpoint-secrets.ts";
export type {
  Authentication,
  Endpoint,
  EndpointChange,
  NewAuthentication,
  NewEndpoint,
  RegisteredEndpoint,
  TestEvent,
} from "./endpoints.ts";
export type {
  EventType,
  EventTypeChange,
  EventTypeListOptions,
  EventTypeSchema,
  NewEventType,
} from "./event-types.ts";
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
} from "./events.ts";
export { FileCredentialStore, parseCredential, serializeCredential } from "./file-credential-store.ts";
export type { IdempotentOptions } from "./idempotency.ts";
export type { List, Page, PageOptions } from "./paging.ts";
export type { MissedEvents, ReplayItem, ReplayJob, ReplayPace, ReplaySelection } from "./replays.ts";
export type { NewPortalLink, PortalLink } from "./portal.ts";
export { RawJson } from "./raw-json.ts";
export type { RetryPolicy } from "./retry.ts";
export type { Clock, Fetch, Runtime, Warn, Warning } from "./runtime.ts";
export { SignetClient, type SignetClientOptions } from "./signet-client.ts";
export { NoteError } from "./signed-note.ts";
export type { StoredCredential, StoredSecret, Successor } from "./succession.ts";
export { createTlsFetch, type TlsMaterial, type TlsSource } from "./tls-fetch.ts";
export type { AccessToken } from "./token-source.ts";
export type { ConnectionOptions } from "./token-sources.ts";
export type { CallOptions } from "./transport.ts";
