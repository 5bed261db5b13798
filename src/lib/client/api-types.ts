/**
 * The members of requests and responses, from the schemas of the service's routes: `npm run docs` writes this
 * file. Times in responses are RFC 3339, in UTC with milliseconds.
 */

/** Part of the response of `GET /v1/webhooks/endpoints/{id}`. */
export type Authentication =
  | {
      readonly type: "header";
      readonly name: string;
      readonly updated_at: string;
    }
  | {
      readonly type: "oauth2_client_credentials";
      readonly token_url: string;
      readonly client_id: string;
      readonly scope?: string;
      readonly updated_at: string;
    }
  | {
      readonly type: "client_certificate";
      /** SHA-256 of the certificate. */
      readonly fingerprint: string;
      readonly subject: string;
      readonly not_after: string;
      readonly updated_at: string;
    };

/** Part of the body of `POST /v1/webhooks/endpoints`. */
export type NewAuthentication =
  | {
      readonly type: "header";
      readonly name: string;
      readonly value: string;
    }
  | {
      readonly type: "oauth2_client_credentials";
      readonly token_url: string;
      readonly client_id: string;
      readonly client_secret: string;
      readonly scope?: string;
    }
  | {
      readonly type: "client_certificate";
      /** PEM, followed by the intermediate certificates. */
      readonly certificate: string;
      /** PEM, unencrypted. */
      readonly private_key: string;
    };

/** The response of `GET /v1/webhooks/endpoints/{id}`. */
export interface Endpoint {
  readonly id: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly metadata: object | null;
  readonly description: string | null;
  /** A query document with MongoDB operators on type and data; null matches every event. */
  readonly filter: object | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly authentication: Authentication | null;
  readonly require_echo: boolean;
  /** Maximum deliveries per second; the others wait. Null for no limit; 1 to 1,000. */
  readonly rate_limit: number | null;
  readonly state: "PENDING" | "ACTIVE" | "DISABLED";
  readonly disabled_reason: "tenant" | "failing" | "gone" | null;
  /** The stream of security events that it belongs to, whose routes change it; absent otherwise. */
  readonly ssf_stream?: string;
  /**
   * Derived from the last 20 attempts. `failing`: the last 5 failed, or 10 failed and the last 3 did not all
   * succeed. `degraded`: 3 or more failed. `unknown`: there was no attempt yet, or the endpoint is `PENDING`.
   * `since` is when the status last changed, `failing_since` when the current row of failures began. About a
   * second old.
   */
  readonly health: {
    readonly status: "healthy" | "degraded" | "failing" | "unknown";
    readonly since: string | null;
    readonly failing_since: string | null;
    readonly last_error: {
      readonly at: string;
      readonly status: number | null;
      readonly error: AttemptError;
    } | null;
    /** Attempts of the current clock hour and the one before it. */
    readonly last_hour: {
      readonly since: string;
      readonly attempts: number;
      readonly succeeded: number;
    };
    /** Deliveries that wait for another attempt. */
    readonly retrying: number;
    /** Deliveries in the dead-letter queue. */
    readonly dead_letters: number;
  };
  readonly created_at: string;
  readonly updated_at: string;
  readonly verification: {
    readonly workflow_id: string;
    readonly attempts: number;
    readonly last_error: string | null;
    readonly next_attempt_at: string | null;
    readonly verified_at: string | null;
    readonly verified_by: "status" | "echo" | null;
  };
}

/** The response of `POST /v1/webhooks/endpoints`. */
export interface RegisteredEndpoint extends Endpoint {
  /** Shown only here. */
  readonly secret: string;
}

/** The body of `POST /v1/webhooks/endpoints`. */
export interface NewEndpoint {
  readonly url: string;
  /** Event types, or `*` as the only item for all of them. */
  readonly events: readonly string[];
  readonly metadata?: object | null;
  readonly description?: string | null;
  /** A query document with MongoDB operators on type and data; null matches every event. */
  readonly filter?: object | null;
  /** Additional headers of every request, 16 at most. Responses show them: put secrets into authentication. */
  readonly headers?: Readonly<Record<string, string>> | null;
  readonly authentication?: NewAuthentication | null;
  /** Only a response that contains the ping's challenge verifies the endpoint. */
  readonly require_echo?: boolean;
  /** Maximum deliveries per second; the others wait. Null for no limit; 1 to 1,000. */
  readonly rate_limit?: number | null;
}

/** The body of `PATCH /v1/webhooks/endpoints/{id}`. */
export interface EndpointChange {
  readonly url?: string;
  /** Event types, or `*` as the only item for all of them. */
  readonly events?: readonly string[];
  readonly metadata?: object | null;
  readonly description?: string | null;
  /** A query document with MongoDB operators on type and data; null matches every event. */
  readonly filter?: object | null;
  /** Additional headers of every request, 16 at most. Responses show them: put secrets into authentication. */
  readonly headers?: Readonly<Record<string, string>> | null;
  readonly authentication?: NewAuthentication | null;
  /** Only a response that contains the ping's challenge verifies the endpoint. */
  readonly require_echo?: boolean;
  /** Maximum deliveries per second; the others wait. Null for no limit; 1 to 1,000. */
  readonly rate_limit?: number | null;
}

/** The query of `GET /v1/webhooks/endpoints`. */
export interface EndpointQuery {
  /** Returns only items in this state. */
  readonly state?: "PENDING" | "ACTIVE" | "DISABLED";
  readonly health?: "healthy" | "degraded" | "failing" | "unknown";
  /**
   * Selects endpoints whose metadata has these members with these values, compared as strings;
   * metadata[key]=value in a query.
   */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The body of `POST /v1/webhooks/endpoints/{id}/test`. */
export interface TestEvent {
  readonly type?: string;
  readonly data?: object;
}

/** Part of the response of `GET /v1/webhooks/endpoints/{id}/secret`. */
export interface EndpointSecretVersion {
  readonly version: number;
  readonly state: "NEXT" | "CURRENT" | "PREVIOUS" | "RETIRED";
  /** First 8 hex digits of the SHA-256 of the secret's text. */
  readonly fingerprint: string;
  readonly created_at: string;
  readonly current_at: string | null;
  readonly signs_until: string | null;
  readonly retired_at: string | null;
  /** Ed25519: whpk_ and the base64 of 32 bytes; verifies v1a signatures. */
  readonly public_key: string | null;
  /** A secret from a scheduled rotation, as a JWE to the recipient's key. */
  readonly encrypted_secret: string | null;
}

/** The response of `GET /v1/webhooks/endpoints/{id}/secret`. */
export interface EndpointSecretVersions {
  readonly endpoint_id: string;
  readonly signing: "hmac-sha256" | "ed25519";
  /** 1 to 365. */
  readonly rotation_days: number | null;
  readonly recipient: object | null;
  readonly data: readonly EndpointSecretVersion[];
}

/** The response of `POST /v1/webhooks/endpoints/{id}/secret/rotate`. */
export interface RotatedEndpointSecret extends EndpointSecretVersion {
  readonly endpoint_id: string;
  /** Shown only here. */
  readonly secret: string;
}

/** The body of `POST /v1/webhooks/endpoints/{id}/secret/rotate`. */
export interface SecretRotation {
  /**
   * How long both secrets sign before the new one becomes the primary one, and again afterwards. Use 0 for a
   * compromised secret: every earlier one stops signing at once; 0 to 604,800; 86,400 by default.
   */
  readonly overlap_seconds?: number;
  /** The caller's own secret: whsec_ and the base64 of 24 to 64 bytes. Generated by the service by default. */
  readonly secret?: string;
}

/** Part of the response of `GET /v1/webhooks/endpoints/{id}/grades/{grade_id}`. */
export interface GradeCheck {
  readonly name: string;
  readonly expected: "accept" | "refuse" | "either";
  readonly verdict: "passed" | "failed" | "not_performed";
  readonly status: number | null;
  readonly error: AttemptError | null;
  readonly duration_ms: number | null;
}

/** Part of the response of `GET /v1/webhooks/endpoints/{id}/grades/{grade_id}`. */
export interface GradeFinding {
  readonly code: string;
  readonly severity: "critical" | "major" | "minor";
  readonly checks: readonly string[];
  readonly problem: string;
  readonly advice: string;
}

/** Part of the response of `GET /v1/webhooks/endpoints/{id}/grades/{grade_id}`. */
export interface GradeReport {
  /** 100 means no findings; 0 to 100. */
  readonly score: number;
  readonly findings: readonly GradeFinding[];
  /** Findings that need a report from the receiver, since they cannot be observed from outside. */
  readonly not_observed: readonly {
    readonly code: string;
    readonly advice: string;
  }[];
  readonly checks: readonly GradeCheck[];
}

/** The response of `GET /v1/webhooks/endpoints/{id}/grades/{grade_id}`. */
export interface Grade {
  readonly id: string;
  readonly endpoint_id: string;
  readonly state: "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED";
  readonly failure: "endpoint_not_active" | "interrupted" | null;
  readonly created_at: string;
  readonly finished_at: string | null;
  /** Progress: requests sent, of `checks_total`. */
  readonly checks_made: number;
  readonly checks_total: number;
  readonly report: GradeReport | null;
}

/** Part of the response of `GET /v1/webhooks/endpoints/{id}/grades`. */
export interface GradeSummary {
  readonly id: string;
  readonly endpoint_id: string;
  readonly state: "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED";
  readonly failure: "endpoint_not_active" | "interrupted" | null;
  readonly created_at: string;
  readonly finished_at: string | null;
  /** The report's score; null until there is a report; 0 to 100. */
  readonly score: number | null;
}

/** The response of `GET /v1/webhooks/event-types/{name}`. */
export interface EventType {
  readonly name: string;
  readonly description: string | null;
  /** The version that events are validated against; null for no validation. */
  readonly schema_version: number | null;
  readonly schema: object | null;
  readonly examples: readonly object[];
  readonly deprecated_at: string | null;
  readonly replaced_by: string | null;
  readonly archived_at: string | null;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Part of the response of `GET /v1/webhooks/event-types/{name}/versions`. */
export interface EventTypeSchema {
  readonly version: number;
  readonly created_at: string;
  readonly schema: object;
}

/** The body of `POST /v1/webhooks/event-types`. */
export interface NewEventType {
  readonly name: string;
  readonly description?: string | null;
  readonly schema?: object | null;
  readonly examples?: readonly object[];
  readonly replaced_by?: string | null;
  readonly deprecated?: boolean;
}

/** The body of `PATCH /v1/webhooks/event-types/{name}`. */
export interface EventTypeChange {
  readonly description?: string | null;
  readonly schema?: object | null;
  readonly examples?: readonly object[];
  readonly replaced_by?: string | null;
  readonly deprecated?: boolean;
  /** 1 to 1,000. */
  readonly schema_version?: number | null;
  readonly archived?: boolean;
}

/** The query of `GET /v1/webhooks/event-types`. */
export interface EventTypeQuery {
  /** Also lists archived types. */
  readonly archived?: "true" | "false";
}

/** Part of the body of `POST /v1/events`. */
export interface NewEvent {
  readonly type: string;
  readonly data: object;
  /** The publisher's own id. An event repeated with the same id within 24 hours is published once. */
  readonly id?: string;
  readonly occurred_at?: string | Date;
  readonly tenant_id?: string;
}

/** Part of the response of `POST /v1/events`. */
export interface AcceptedEvent {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  /** Number of endpoints that get the event. */
  readonly deliveries: number;
}

/** Part of the response of `POST /v1/events`. */
export interface AcceptedBatchItem extends AcceptedEvent {
  readonly index: number;
  /**
   * True, and present, if the result is that of an earlier event with the same `id`. A repeated batch has the
   * header `Idempotent-Replayed` instead.
   */
  readonly replayed?: boolean;
}

/** Part of the response of `POST /v1/events`. */
export interface RefusedBatchItem {
  readonly index: number;
  readonly error: Readonly<Record<string, unknown>>;
}

/** The response of `GET /v1/events/{id}`. */
export interface StoredEvent {
  readonly id: string;
  readonly type: string;
  readonly source_id: string | null;
  readonly occurred_at: string;
  readonly created_at: string;
  readonly deliveries: number;
  readonly content_erased_at: string | null;
  /** Null once it is erased. */
  readonly data: object | null;
}

/** The query of `GET /v1/events`. */
export interface EventQuery {
  /** The publisher's own id. An event repeated with the same id within 24 hours is published once. */
  readonly id?: string;
  /** Returns only items of this event type. */
  readonly event_type?: string;
  readonly from?: string | Date;
  readonly to?: string | Date;
}

/** Part of the response of `GET /v1/webhooks/deliveries/{id}`. */
export type AttemptError =
  | "status"
  | "timeout"
  | "connect"
  | "tls"
  | "dns"
  | "refused"
  | "aborted"
  | "authentication";

/** Part of the response of `GET /v1/webhooks/deliveries/{id}`. */
export type DeliveryState = "QUEUED" | "RETRYING" | "DELIVERED" | "DEAD_LETTERED" | "EXPIRED" | "CANCELLED";

/** The response of `GET /v1/webhooks/deliveries/{id}`. */
export interface Delivery {
  readonly id: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly endpoint_id: string;
  readonly state: DeliveryState;
  /** Number of the cycle: 1, plus 1 for each replay or resend. */
  readonly cycle: number;
  /** Completed attempts in this cycle, of 17. */
  readonly attempt_count: number;
  readonly next_attempt_at: string | null;
  readonly last_status: number | null;
  readonly last_error: AttemptError | null;
  /**
   * The Temporal workflow that makes the delivery or holds the dead letter; null until a worker claims the
   * delivery, and for seconds between two workflows.
   */
  readonly workflow_id: string | null;
  readonly created_at: string;
  readonly delivered_at: string | null;
  readonly dead_lettered_at: string | null;
  readonly expires_at: string | null;
}

/** The query of `GET /v1/webhooks/deliveries`. */
export interface DeliveryQuery {
  readonly endpoint_id?: string;
  readonly event_id?: string;
  /** Returns only items of this event type. */
  readonly event_type?: string;
  /** Returns only items in this state. */
  readonly state?: DeliveryState;
  readonly from?: string | Date;
  readonly to?: string | Date;
  /** Returns only items whose last attempt failed with this error. */
  readonly last_error?: AttemptError;
  /** Returns only items whose last attempt got this HTTP status; 100 to 999. */
  readonly last_status?: number;
  /** Returns only dead letters with this reason. */
  readonly reason?: "attempts_exhausted" | "endpoint_disabled";
  /**
   * Selects endpoints whose metadata has these members with these values, compared as strings;
   * metadata[key]=value in a query.
   */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Part of the response of `GET /v1/webhooks/deliveries/{id}/attempts`. */
export interface Attempt {
  readonly id: string;
  readonly cycle: number;
  readonly attempt: number;
  readonly started_at: string;
  /** Null while the request is in flight. */
  readonly duration_ms: number | null;
  readonly status: number | null;
  readonly error: AttemptError | null;
  /** The first 4 KiB; erased with the event's content. */
  readonly response_body: string | null;
  /** True if a resend began its cycle; otherwise absent. */
  readonly resend?: boolean;
}

/** Part of the response of `GET /v1/webhooks/stats`. */
export interface DeliveryHour {
  readonly hour: string;
  /** Deliveries accepted in this hour. */
  readonly total: number;
  readonly delivered: number;
  /** Deliveries in the dead-letter queue, or expired there. */
  readonly dead_lettered: number;
  /** Attempts that ended in this hour. */
  readonly attempts: number;
  readonly failed_attempts: number;
  /** Milliseconds from acceptance to acknowledgement; null without deliveries. */
  readonly latency_p50_ms: number | null;
  /** Milliseconds from acceptance to acknowledgement; null without deliveries. */
  readonly latency_p95_ms: number | null;
  /** False if the hour has more than 1,000 deliveries: the numbers then cover the newest 1,000. */
  readonly complete: boolean;
}

/** Part of the response of `GET /v1/usage`. */
export interface Usage {
  readonly tenant_id: string;
  /** UTC. */
  readonly day: string;
  /** Accepted from the tenant, without events of the service. */
  readonly events: number;
  /** Size of these events' data, sealed. */
  readonly bytes: number;
  /** Accepted on this day. */
  readonly deliveries: number;
  /** Of the deliveries accepted on this day. */
  readonly delivered: number;
  readonly dead_lettered: number;
  readonly expired: number;
  readonly cancelled: number;
  /** Ended on this day. */
  readonly attempts: number;
  readonly failed_attempts: number;
}

/** The response of `GET /v1/webhooks/dlq/{id}`. */
export interface DeadLetter extends Delivery {
  readonly reason: "attempts_exhausted" | "endpoint_disabled" | null;
  readonly event: object | null;
}

/** Part of the response of `GET /v1/webhooks/dlq/groups`. */
export interface DeadLetterGroup {
  readonly endpoint_id: string;
  readonly reason: "attempts_exhausted" | "endpoint_disabled";
  readonly last_error: AttemptError | null;
  /** A stored count: up to a second late when dead letters expire. */
  readonly count: number;
}

/** The response of `GET /v1/webhooks/dlq/summary`. */
export interface DeadLetterSummary {
  /** A stored count: up to a second late when dead letters expire. */
  readonly total: number;
  readonly oldest_at: string | null;
  readonly first_expires_at: string | null;
}

/** Part of the response of `POST /v1/webhooks/dlq/replay`. */
export interface ReplayCount {
  readonly total: number;
  /**
   * How many of them would fail now, because their endpoint is disabled, unverified or deleted. Present if any
   * would.
   */
  readonly would_fail?: number;
  /** True, and present, if 500000 deliveries or more would have to be compared: the oldest of them were counted. */
  readonly at_least?: boolean;
}

/** The response of `GET /v1/webhooks/replays/{id}`. */
export interface ReplayJob {
  readonly id: string;
  readonly kind: "dead_letters" | "deliveries" | "missing";
  readonly endpoint_id: string | null;
  /** Selected states; null for other kinds. */
  readonly states: readonly ("DEAD_LETTERED" | "RETRYING" | "DELIVERED" | "CANCELLED" | "EXPIRED")[] | null;
  readonly state: "RUNNING" | "PAUSED" | "COMPLETED" | "CANCELLED";
  /** Items so far; final once `listing` is false. */
  readonly total: number;
  /** Whether items are still being listed, while the first are replayed. */
  readonly listing: boolean;
  /** Replayed items, and retries that were made due. */
  readonly done: number;
  /** Items that could not be replayed: expired, not found, or their endpoint is disabled or deleted. */
  readonly failed: number;
  /** Items that need no replay: changed since, erased, or already delivered. */
  readonly skipped: number;
  readonly rate_per_second: number;
  readonly created_at: string;
  readonly finished_at: string | null;
}

/** Part of the response of `GET /v1/webhooks/replays/{id}/items`. */
export interface ReplayItem {
  /** Position in the order of replay, from 1. */
  readonly position: number;
  readonly delivery_id: string | null;
  readonly event_id: string | null;
  readonly state: "WAITING" | "DONE" | "SKIPPED" | "FAILED" | "CANCELLED";
  readonly reason:
    | "not_in_queue"
    | "state_changed"
    | "content_erased"
    | "delivery_exists"
    | "expired"
    | "not_found"
    | "endpoint_disabled"
    | "endpoint_unavailable"
    | null;
  readonly outcome: "DELIVERED" | "RETRYING" | "FAILED" | "CANCELLED" | "WAITING" | null;
}

/** The response of `GET /v1/webhooks/replays/{id}/outcomes`. */
export interface ReplayOutcomes {
  readonly delivered: number;
  /** Failed at least once since, and is retried. */
  readonly retrying: number;
  /** Dead letters again. */
  readonly failed: number;
  readonly cancelled: number;
  /** No outcome yet. */
  readonly waiting: number;
  /** Items that were looked at, the first of the job. Present if the job has more than 100000. */
  readonly counted?: number;
}

/** The body of `POST /v1/webhooks/replays`. */
export interface NewReplay {
  /** By default, `DEAD_LETTERED` and `RETRYING`. */
  readonly states?: readonly ("DEAD_LETTERED" | "RETRYING" | "DELIVERED" | "CANCELLED" | "EXPIRED")[] | null;
  readonly filter: {
    readonly endpoint_id?: string;
    readonly event_id?: string;
    readonly event_type?: string;
    readonly from?: string | Date;
    readonly to?: string | Date;
    readonly last_error?: AttemptError;
    /** 100 to 999. */
    readonly last_status?: number;
    readonly reason?: "attempts_exhausted" | "endpoint_disabled";
    /**
     * Selects endpoints whose metadata has these members with these values, compared as strings;
     * metadata[key]=value in a query.
     */
    readonly metadata?: Readonly<Record<string, string>>;
  };
  /** Maximum replays per second; 500 by default; 1 to 5,000. */
  readonly rate_per_second?: number;
}

/** The body of `POST /v1/webhooks/endpoints/{id}/replay-missing`. */
export interface MissedEvents {
  readonly since: string | Date;
  readonly until?: string | Date;
  /** Maximum replays per second; 500 by default; 1 to 5,000. */
  readonly rate_per_second?: number;
}

/** The response of `PATCH /v1/credentials/{id}`. */
export interface Credential {
  readonly id: string;
  readonly principal_id: string;
  readonly client_id: string;
  /** A name for humans. */
  readonly name: string | null;
  readonly state: "ACTIVE" | "REVOKED";
  readonly rotation_mode: "in_band" | "workload" | "manual";
  readonly san_uri: string | null;
  readonly certificate_thumbprints: readonly string[];
  readonly created_at: string;
  readonly revoked_at: string | null;
  readonly ends_at: string | null;
  readonly replaced_by: string | null;
  /** Only its signed events are accepted. */
  readonly signature_required: boolean;
  readonly due_at: string | null;
  /** When one of its secrets last authenticated; null for a workload credential. */
  readonly last_used_at: string | null;
  /** Its rotation was due at least a week ago and the successor is not in use. */
  readonly overdue: boolean;
}

/** Part of the response of `GET /v1/credentials/{id}`. */
export interface SecretVersion {
  readonly version: number;
  readonly state: "PENDING" | "ACTIVE" | "RETIRING" | "RETIRED" | "REVOKED";
  readonly issued_at: string;
  readonly due_at: string | null;
  readonly acked_at: string | null;
  readonly last_used_at: string | null;
  readonly superseded_at: string | null;
  readonly retire_by: string | null;
  readonly retired_at: string | null;
  /** How often it was returned as a successor. */
  readonly delivered_count: number;
}

/** The response of `GET /v1/credentials/{id}`. */
export interface CredentialDetails extends Credential {
  readonly versions: readonly SecretVersion[];
}

/** The body of `POST /v1/credentials`. */
export interface NewCredential {
  /** A name for humans. */
  readonly name?: string | null;
  /** SPIFFE id in the certificate. */
  readonly san_uri?: string | null;
  readonly certificate_thumbprints?: readonly string[];
  readonly rotation_mode?: "workload";
  readonly jwks?: {
    readonly keys: readonly object[];
  };
  readonly principal_id?: string;
  /**
   * The credential to replace. Its tokens expire up to 15 minutes after it ends. Revoke it too if it is
   * compromised.
   */
  readonly replaces?: string;
  /** How long the replaced credential still gets tokens; 24 hours by default; 0 to 2,592,000. */
  readonly overlap_seconds?: number;
}

/** The response of `POST /v1/credentials`. */
export interface CreatedCredential extends Credential {
  readonly version: number | null;
  /**
   * Shown only here, and to a repeated request with the same Idempotency-Key within 24 hours; absent for a
   * workload credential.
   */
  readonly client_secret?: string;
}

/** The response of `POST /v1/credentials/{id}/revoke`. */
export interface Revocation {
  readonly revocation_id: string;
  /** Sequence number, without gaps in the whole deployment. */
  readonly sequence: number;
  readonly committed_at: string;
  readonly compliance: {
    readonly log_index: number;
    /** RFC 6962 leaf hash of the entry, hexadecimal. */
    readonly leaf_hash: string;
  };
  readonly edges: {
    /** Connected processes that admit tokens. */
    readonly live: number;
    /** Processes that confirmed the revocation; the others admit no request until they do. */
    readonly acked: number;
    /** Upper bound of the slowest confirmation, in milliseconds. */
    readonly max_ms: number | null;
    readonly outcome: "applied" | "slow_but_safe" | "pending" | "unknown";
    /**
     * The outcome in words: `applied` by every process in time; `slow_but_safe`, when a process did not confirm
     * in time but its lease had expired, so it admits no request; `pending`, when a process may still admit
     * tokens; `unknown`.
     */
    readonly summary: string;
    /**
     * Connected processes, and those that lost their connection in the last two minutes: at most 200, those
     * without a confirmation first.
     */
    readonly processes: readonly {
      /** Identifies the process in its log (`follower`). */
      readonly id: string;
      /** `edge`, `api` or `hub`. */
      readonly kind: string;
      /** Region of the process (`SIGNET_REGION`); null if it is not set. */
      readonly region: string | null;
      readonly state: "applied" | "lease_expired" | "pending";
      /** Upper bound of the time to its confirmation; null without one, or if it started later. */
      readonly ms: number | null;
    }[];
  };
}

/** The response of `POST /v1/revocations`. */
export interface LeakRevocation extends Revocation {
  readonly revoked: readonly {
    readonly kind: "credential" | "signing_secret" | "jti" | "kid" | "cert";
    /** Id of the credential, also of a signing secret; jti of the token; key id; SHA-256 of the certificate. */
    readonly target: string;
    readonly tenant_id: string | null;
    /** The credential; for a token, the one that got it. */
    readonly credential_id: string | null;
    readonly client_id: string | null;
    /** Version of the secret that leaked. */
    readonly version: number | null;
    readonly expires_at: string | null;
    /** Whether the token had already expired. */
    readonly expired: boolean;
  }[];
}

/** Part of the response of `GET /v1/credentials/{id}/signing-secret`. */
export interface SigningSecret {
  readonly version: number;
  readonly state: "GOOD" | "ENDED" | "REVOKED";
  /** First 8 hex digits of the secret's SHA-256. */
  readonly fingerprint: string;
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly ends_at: string | null;
  readonly revoked_at: string | null;
}

/** The response of `POST /v1/credentials/{id}/signing-secret`. */
export interface CreatedSigningSecret extends SigningSecret {
  /** Shown only here, and to a repeated request with the same Idempotency-Key within 24 hours. */
  readonly secret: string;
}

/** Part of the response of `GET /v1/compliance/entries`. */
export interface ComplianceEntry {
  /** Index in the log, from 0 without gaps. */
  readonly index: number;
  readonly at: string;
  readonly type: string;
  readonly actor: string;
  readonly tenant_id: string | null;
  readonly target: string | null;
  readonly reason: string | null;
  readonly request_id: string | null;
  readonly details: Readonly<Record<string, unknown>>;
  /** RFC 6962 leaf hash of the entry, hexadecimal. */
  readonly leaf_hash: string;
}

/** The response of `GET /v1/compliance/entries/{idx}`. */
export interface ComplianceEntryDetails extends ComplianceEntry {
  /** The bytes that the leaf hash covers: canonical JSON, in base64. */
  readonly entry: string;
}

/** The response of `GET /v1/compliance/checkpoint`. */
export interface ComplianceCheckpoint {
  /** Number of the checkpoint, from 1 without gaps. */
  readonly seq: number;
  /** Number of entries in the tree. */
  readonly size: number;
  /** Root hash of the tree, hexadecimal. */
  readonly root: string;
  /** Signed note (c2sp.org/tlog-checkpoint). */
  readonly note: string;
  /**
   * The key that signed it, `name+id+key`, as the service claims; null if unknown. This suffices to notice a
   * later change of key. To trust the log, get the key from the operators through another channel.
   */
  readonly verifier_key: string | null;
  readonly signed_at: string;
}

/** The query of `GET /v1/compliance/entries`. */
export interface ComplianceQuery {
  /** Returns only items of this type. */
  readonly type?: string;
  readonly from?: string | Date;
  readonly to?: string | Date;
}

/** The body of `POST /v1/ssf/streams`. */
export interface NewStream {
  readonly events_requested?: readonly string[];
  readonly delivery?: {
    /** Push (RFC 8935) or poll (RFC 8936). */
    readonly method: "urn:ietf:rfc:8935" | "urn:ietf:rfc:8936";
    /** Where tokens are pushed. The service sets it for polling. */
    readonly endpoint_url?: string;
    /** Sent with every push. Never shown. Absent in a change to keep it, `null` to remove it. */
    readonly authorization_header?: string | null;
  };
  readonly description?: string;
}

/** The response of `POST /v1/ssf/streams`. */
export interface Stream {
  readonly stream_id: string;
  /** `iss` of the tokens. */
  readonly iss: string;
  /** `aud` of the tokens: the id of the stream. */
  readonly aud: string;
  readonly events_supported: readonly string[];
  readonly events_requested: readonly string[];
  readonly events_delivered: readonly string[];
  readonly delivery: {
    readonly method: "urn:ietf:rfc:8935" | "urn:ietf:rfc:8936";
    readonly endpoint_url: string;
  };
  /** In seconds. */
  readonly min_verification_interval: number;
  readonly description?: string;
  /** The endpoint of a push stream: its deliveries, attempts and dead letters are the stream's. */
  readonly endpoint_id?: string;
}

/** The body of `PATCH /v1/ssf/streams`. */
export interface StreamChange extends NewStream {
  readonly stream_id: string;
  readonly iss?: string;
  readonly aud?: string;
  readonly events_supported?: readonly string[];
  readonly events_delivered?: readonly string[];
  /** 0 to 2,147,483,647. */
  readonly min_verification_interval?: number;
  readonly endpoint_id?: string;
}

/** The response of `GET /v1/ssf/status`. */
export interface StreamStatus {
  readonly stream_id: string;
  readonly status: "enabled" | "paused" | "disabled";
  readonly reason?: string;
}

/** The body of `POST /v1/ssf/status`. */
export interface StreamStatusChange {
  readonly stream_id: string;
  readonly status: "enabled" | "paused" | "disabled";
  readonly reason?: string;
}

/** Part of the body of `POST /v1/ssf/subjects/remove`. */
export interface SubjectIdentifier {
  /** `iss_sub`, `opaque` or `jwt_id`; others match no event. */
  readonly format: string;
  readonly iss?: string;
  /** Client id of a credential, or id of a principal. */
  readonly sub?: string;
  /** Id of the tenant. */
  readonly id?: string;
  /** `jti` of a token. */
  readonly jti?: string;
}

/** The body of `POST /v1/ssf/poll/{stream_id}`. */
export interface PollRequest {
  /** Most tokens in the answer: 100 at most and by default; 0 only acknowledges; 0 to 2,147,483,647. */
  readonly maxEvents?: number;
  /** Whether to answer at once if there are no tokens; by default after 20 seconds. */
  readonly returnImmediately?: boolean;
  /** Tokens that need not be sent again. */
  readonly ack?: readonly string[];
  /** Errors of tokens that the receiver cannot use, by `jti`. They are not sent again. */
  readonly setErrs?: Readonly<
    Record<
      string,
      {
        readonly err: string;
        readonly description?: string;
      }
    >
  >;
}

/** The response of `POST /v1/ssf/poll/{stream_id}`. */
export interface PollAnswer {
  /** Signed tokens by `jti`. */
  readonly sets: Readonly<Record<string, string>>;
  readonly moreAvailable: boolean;
}

/** The body of `POST /v1/portal/links`. */
export interface NewPortalLink {
  /** Lifetime of the link; 300 by default; 1 to 900. */
  readonly expires_in_seconds?: number;
  /** Scopes of the session, a subset of the token's; by default all of them. */
  readonly scopes?: readonly string[];
}

/** The response of `POST /v1/portal/links`. */
export interface PortalLink {
  /** Valid for one sign-in; anybody who has it can use it. */
  readonly url: string;
  readonly expires_at: string;
}
