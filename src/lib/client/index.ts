/** Public exports of the client library. */
export { type ClientAssertion, privateKeyAssertion, type PrivateKeyOptions } from "./client-assertion.ts";
export type {
  AcceptedEvent,
  Attempt,
  AttemptError,
  Authentication,
  ComplianceCheckpoint,
  ComplianceEntry,
  ComplianceEntryDetails,
  CreatedCredential,
  CreatedSigningSecret,
  Credential,
  CredentialDetails,
  DeadLetter,
  DeadLetterGroup,
  DeadLetterSummary,
  Delivery,
  DeliveryState,
  Endpoint,
  EndpointChange,
  EndpointSecretVersion,
  EndpointSecretVersions,
  EventType,
  EventTypeChange,
  EventTypeSchema,
  Grade,
  GradeCheck,
  GradeFinding,
  GradeReport,
  GradeSummary,
  LeakRevocation,
  MissedEvents,
  NewAuthentication,
  NewCredential,
  NewEndpoint,
  NewEvent,
  NewEventType,
  NewPortalLink,
  NewReplay,
  NewStream,
  PollAnswer,
  PollRequest,
  PortalLink,
  RegisteredEndpoint,
  ReplayCount,
  ReplayItem,
  ReplayJob,
  ReplayOutcomes,
  Revocation,
  RotatedEndpointSecret,
  SecretRotation,
  SecretVersion,
  SigningSecret,
  StoredEvent,
  Stream,
  StreamChange,
  StreamStatus,
  StreamStatusChange,
  SubjectIdentifier,
  TestEvent,
} from "./api-types.ts";
export {
  ComplianceProofError,
  type VerifiedEntry,
  type VerifyEntryOptions,
} from "../transparency-log/compliance-proof.ts";
export type { CredentialStore } from "./credential-store.ts";
export type { DeadLetterExport } from "./resources/dead-letter-export.ts";
export type { DeliveryStream, DeliveryStreamOptions } from "./resources/delivery-stream.ts";
export {
  CredentialStoreError,
  type Problem,
  SignetApiError,
  SignetTransportError,
  type TransportFailure,
} from "./errors.ts";
export { FileCredentialStore, parseCredential, serializeCredential } from "./file-credential-store.ts";
export type { IdempotentOptions } from "./idempotency.ts";
export type { List, Page, PageOptions } from "./paging.ts";
export type {
  AcceptedItem,
  BatchItem,
  ComplianceFilter,
  DeliveryFilter,
  EventFilter,
  EventTypeListOptions,
  RefusedItem,
  ReplayPace,
  ReplaySelection,
  RevokeLeakedOptions,
  RevokeOptions,
  SecretSettings,
} from "./resources/types.ts";
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
