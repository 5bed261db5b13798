/** The types of rows, from the migrated schema: `npm run docs` writes this file. */

/** The tables, each with the type of its rows. Partitions are not listed. */
interface Tables {
  readonly attempts: {
    readonly day: string;
    readonly delivery_id: string;
    readonly cycle: number;
    readonly attempt: number;
    readonly id: string;
    readonly tenant_id: string;
    readonly lease_until: Date | null;
    readonly started_at: Date;
    readonly duration_ms: number | null;
    readonly status: number | null;
    readonly error: string | null;
    readonly response_body: string | null;
    readonly response: Buffer | null;
  };
  readonly cell_entries: {
    readonly cell: string;
    readonly place: number;
    readonly before_index: Buffer;
    readonly after_index: Buffer;
    readonly arrived_at: Date;
  };
  readonly cell_logs: {
    readonly cell: string;
    readonly login: string;
    readonly size: number;
    readonly last_leaf: Buffer | null;
    readonly last_at: Date | null;
  };
  readonly client_assertions: {
    readonly credential_id: string;
    readonly jti_digest: Buffer;
    readonly tenant_id: string;
    readonly expires_at: Date;
  };
  readonly clog: {
    readonly log_id: number;
    readonly idx: number;
    readonly entry: Buffer;
    readonly leaf_hash: Buffer;
    readonly at: Date;
    readonly type: string;
    readonly tenant_id: string | null;
    readonly actor: string | null;
  };
  readonly clog_checkpoint: {
    readonly log_id: number;
    readonly seq: number;
    readonly size: number;
    readonly root: Buffer;
    readonly note: string;
    readonly signed_at: Date;
    readonly verifier_key: string | null;
  };
  readonly clog_head: {
    readonly log_id: number;
    readonly size: number;
    readonly frontier: readonly Buffer[];
    readonly root: Buffer;
  };
  readonly clog_tile: {
    readonly log_id: number;
    readonly level: number;
    readonly idx: number;
    readonly hashes: Buffer;
    readonly root: Buffer;
  };
  readonly credentials: {
    readonly id: string;
    readonly tenant_id: string;
    readonly principal_id: string;
    readonly client_id: string;
    readonly state: "ACTIVE" | "REVOKED";
    readonly rotation_mode: "in_band" | "workload" | "manual";
    readonly san_uri: string | null;
    readonly certificate_thumbprints: readonly string[];
    readonly created_at: Date;
    readonly revoked_at: Date | null;
    readonly jwks: unknown;
    readonly ends_at: Date | null;
    readonly replaced_by: string | null;
    readonly signature_required: boolean;
    readonly name: string | null;
    readonly end_index: number | null;
  };
  readonly day_drop_lines: {
    readonly day: string;
    readonly seq: number;
    readonly id: string;
  };
  readonly day_drops: {
    readonly day: string;
    readonly kinds: number;
    readonly after_tenant: string;
    readonly after_id: string;
  };
  readonly dead_letter_changes: {
    readonly id: number;
    readonly tenant_id: string;
    readonly endpoint_id: string;
    readonly delivery_id: string;
    readonly event_type: string;
    readonly reason: string;
    readonly last_error: string;
    readonly change: number;
  };
  readonly dead_letter_counts: {
    readonly tenant_id: string;
    readonly endpoint_id: string;
    readonly reason: string;
    readonly last_error: string;
    readonly letters: number;
  };
  readonly dead_letter_notices: {
    readonly kind: "dead_lettered" | "expiring";
    readonly endpoint_id: string;
    readonly bucket: Date;
    readonly tenant_id: string;
    readonly letters: number;
    readonly ids: readonly string[];
    readonly due_at: Date;
    readonly expires_at: Date | null;
  };
  readonly dead_letter_watch: {
    readonly single: boolean;
    readonly told_until: Date;
  };
  readonly deliveries: {
    readonly day: string;
    readonly id: string;
    readonly tenant_id: string;
    readonly event_id: string;
    readonly event_type: string;
    readonly endpoint_id: string;
    readonly state: "QUEUED" | "RETRYING" | "DELIVERED" | "DEAD_LETTERED" | "EXPIRED" | "CANCELLED";
    readonly reason: "attempts_exhausted" | "endpoint_disabled" | "content_erased" | null;
    readonly carrier: string | null;
    readonly epoch: number;
    readonly cycle: number;
    readonly claimed_at: Date | null;
    readonly attempt_count: number;
    readonly cycle_started_at: Date | null;
    readonly next_attempt_at: Date | null;
    readonly last_status: number | null;
    readonly last_error: string | null;
    readonly created_at: Date;
    readonly delivered_at: Date | null;
    readonly dead_lettered_at: Date | null;
    readonly expires_at: Date | null;
    readonly claimed_by: string | null;
    readonly first_duration_ms: number | null;
    readonly first_response: Buffer | null;
    readonly resent_cycles: string | null;
  };
  readonly delivery_changes: {
    readonly tenant_id: string;
    readonly endpoint_id: string;
    readonly event_type: string;
    readonly hour: Date | null;
    readonly attempt_hour: Date | null;
    readonly events: number;
    readonly bytes: number;
    readonly accepted: number;
    readonly delivered: number;
    readonly retrying: number;
    readonly dead: number;
    readonly expired: number;
    readonly cancelled: number;
    readonly attempts: number;
    readonly failed: number;
    readonly results: string | null;
    readonly ended_at: Date | null;
    readonly failed_at: Date | null;
    readonly status: number | null;
    readonly error: string | null;
    readonly id: number;
  };
  readonly delivery_counts: {
    readonly tenant_id: string;
    readonly hour: Date;
    readonly endpoint_id: string;
    readonly event_type: string;
    readonly events: number;
    readonly bytes: number;
    readonly accepted: number;
    readonly delivered: number;
    readonly dead: number;
    readonly expired: number;
    readonly cancelled: number;
    readonly attempts: number;
    readonly failed: number;
  };
  readonly endpoint_activity: {
    readonly endpoint_id: string;
    readonly tenant_id: string;
    readonly health: "healthy" | "degraded" | "failing";
    readonly health_since: Date | null;
    readonly results: string;
    readonly failing_since: Date | null;
    readonly last_failure_at: Date | null;
    readonly last_status: number | null;
    readonly last_error: string | null;
    readonly retrying: number;
    readonly dead: number;
  };
  readonly endpoint_authentications: {
    readonly endpoint_id: string;
    readonly tenant_id: string;
    readonly version: number;
    readonly sealed: string;
  };
  readonly endpoint_failures: {
    readonly endpoint_id: string;
    readonly failing_since: Date;
    readonly exhausted_at: Date | null;
  };
  readonly endpoint_grades: {
    readonly id: string;
    readonly tenant_id: string;
    readonly endpoint_id: string;
    readonly state: "QUEUED" | "RUNNING" | "COMPLETED" | "FAILED";
    readonly runs: number;
    readonly lease_until: Date | null;
    readonly failure: "endpoint_not_active" | "interrupted" | null;
    readonly report: string | null;
    readonly created_at: Date;
    readonly finished_at: Date | null;
    readonly checks_made: number;
  };
  readonly endpoint_health: {
    readonly endpoint_id: string;
    readonly latency_ms: number;
    readonly slow_until: Date;
  };
  readonly endpoint_lines: {
    readonly endpoint_id: string;
    readonly rate_limit: number;
    readonly free_at_ms: number;
    readonly late_free_at_ms: number;
  };
  readonly endpoint_secrets: {
    readonly endpoint_id: string;
    readonly version: number;
    readonly tenant_id: string;
    readonly secret: string;
    readonly fingerprint: string;
    readonly state: "NEXT" | "CURRENT" | "PREVIOUS" | "RETIRED";
    readonly created_at: Date;
    readonly current_at: Date | null;
    readonly overlap_ends_at: Date | null;
    readonly retired_at: Date | null;
    readonly signing_key: string | null;
    readonly public_key: string | null;
    readonly encrypted_secret: string | null;
  };
  readonly endpoints: {
    readonly id: string;
    readonly tenant_id: string;
    readonly url: string;
    readonly event_types: readonly string[];
    readonly metadata: string | null;
    readonly description: string | null;
    readonly state: "PENDING" | "ACTIVE" | "DISABLED" | "DELETED";
    readonly disabled_reason: "tenant" | "failing" | "gone" | null;
    readonly generation: number;
    readonly verification_state: "WANTED" | "RUNNING" | "VERIFIED" | "EXHAUSTED";
    readonly verification_requested_at: Date;
    readonly verification_attempts: number;
    readonly verification_last_error: string | null;
    readonly verification_next_attempt_at: Date | null;
    readonly verified_at: Date | null;
    readonly verified_by: string | null;
    readonly created_at: Date;
    readonly updated_at: Date;
    readonly deleted_at: Date | null;
    readonly filter: string | null;
    readonly filter_hash: number | null;
    readonly request_version: number | null;
    readonly headers: string | null;
    readonly authentication: string | null;
    readonly require_echo: boolean;
    readonly secret_rotation_days: number | null;
    readonly secret_recipient: string | null;
    readonly rate_limit: number | null;
    readonly ssf_stream: string | null;
  };
  readonly event_type_schemas: {
    readonly tenant_id: string;
    readonly name: string;
    readonly version: number;
    readonly schema: string;
    readonly digest: string;
    readonly created_at: Date;
  };
  readonly event_types: {
    readonly tenant_id: string;
    readonly name: string;
    readonly description: string | null;
    readonly examples: string;
    readonly schema_version: number | null;
    readonly schema_digest: string | null;
    readonly deprecated_at: Date | null;
    readonly replaced_by: string | null;
    readonly archived_at: Date | null;
    readonly created_at: Date;
    readonly updated_at: Date;
  };
  readonly events: {
    readonly day: string;
    readonly id: string;
    readonly tenant_id: string;
    readonly type: string;
    readonly data: string | null;
    readonly source_id: string | null;
    readonly occurred_at: Date;
    readonly deliveries: number;
    readonly created_at: Date;
    readonly content: Buffer | null;
    readonly content_erased_at: Date | null;
    readonly traceparent: string | null;
    readonly own: boolean | null;
  };
  readonly home_position: {
    readonly id: number;
    readonly seq: number;
    readonly at: Date | null;
    readonly end_index: number | null;
  };
  readonly idempotency_keys: {
    readonly tenant_id: string;
    readonly route: string;
    readonly key: string;
    readonly body_hash: Buffer;
    readonly resource_id: string;
    readonly created_at: Date;
  };
  readonly idempotent_answers: {
    readonly owner_id: string;
    readonly route: string;
    readonly key_digest: Buffer;
    readonly body_hash: Buffer;
    readonly answer: string | null;
    readonly created_at: Date;
  };
  readonly lease_keys: {
    readonly id: string;
    readonly inner_pad: Buffer;
    readonly outer_pad: Buffer;
    readonly created_at: Date;
  };
  readonly lock_slots: {
    readonly id: number;
  };
  readonly match_versions: {
    readonly tenant_id: string;
    readonly slot: string;
    readonly version: string;
  };
  readonly operator_sessions: {
    readonly hash: Buffer;
    readonly operator_id: string;
    readonly token_id: string | null;
    readonly certificate: string | null;
    readonly bootstrap_hash: Buffer | null;
    readonly viewed: string | null;
    readonly created_at: Date;
    readonly expires_at: Date;
  };
  readonly operator_tokens: {
    readonly id: string;
    readonly operator_id: string;
    readonly prefix: string;
    readonly mac: Buffer;
    readonly mac_key_id: string;
    readonly created_by: string;
    readonly created_at: Date;
    readonly expires_at: Date;
    readonly last_used_at: Date | null;
    readonly revoked_at: Date | null;
  };
  readonly operators: {
    readonly id: string;
    readonly name: string;
    readonly role: "read" | "provision" | "security";
    readonly state: "ACTIVE" | "REVOKED";
    readonly san_uri: string | null;
    readonly certificate_thumbprints: readonly string[];
    readonly created_by: string;
    readonly created_at: Date;
    readonly revoked_at: Date | null;
  };
  readonly pinged_hosts: {
    readonly host: string;
    readonly since: Date;
    readonly pings: number;
  };
  readonly portal_links: {
    readonly hash: Buffer;
    readonly tenant_id: string;
    readonly principal_id: string;
    readonly credential_id: string;
    readonly scopes: readonly string[];
    readonly jti: string;
    readonly kid: string;
    readonly issued_at: number;
    readonly certificate_thumbprint: string | null;
    readonly created_at: Date;
    readonly expires_at: Date;
    readonly client_id: string | null;
    readonly region: string | null;
  };
  readonly portal_sessions: {
    readonly hash: Buffer;
    readonly tenant_id: string;
    readonly principal_id: string;
    readonly credential_id: string;
    readonly scopes: readonly string[];
    readonly jti: string;
    readonly kid: string;
    readonly issued_at: number;
    readonly certificate_thumbprint: string | null;
    readonly created_at: Date;
    readonly expires_at: Date;
    readonly address: string | null;
    readonly user_agent: string | null;
    readonly client_id: string | null;
    readonly region: string | null;
  };
  readonly principals: {
    readonly id: string;
    readonly tenant_id: string;
    readonly role_id: string;
    readonly name: string;
    readonly region: string;
    readonly environment: "production" | "development";
    readonly scopes: readonly string[];
    readonly provisioned_at: Date;
    readonly created_at: Date;
    readonly state: "ACTIVE" | "REVOKED";
    readonly revoked_at: Date | null;
  };
  readonly producer_secrets: {
    readonly credential_id: string;
    readonly version: number;
    readonly tenant_id: string;
    readonly secret: string | null;
    readonly fingerprint: string;
    readonly created_at: Date;
    readonly last_used_at: Date | null;
    readonly ends_at: Date | null;
    readonly revoked_at: Date | null;
  };
  readonly replay_items: {
    readonly job_id: string;
    readonly position: number;
    readonly tenant_id: string;
    readonly day: string;
    readonly delivery_id: string | null;
    readonly event_id: string | null;
    readonly cycle: number | null;
    readonly result: string | null;
    readonly state: string | null;
    readonly attempts: number | null;
  };
  readonly replay_jobs: {
    readonly id: string;
    readonly tenant_id: string;
    readonly kind: "dead_letters" | "deliveries" | "missing";
    readonly endpoint_id: string | null;
    readonly state: "RUNNING" | "PAUSED" | "COMPLETED" | "CANCELLED";
    readonly rate_per_second: number;
    readonly total: number;
    readonly done: number;
    readonly failed: number;
    readonly skipped: number;
    readonly position: number;
    readonly created_at: Date;
    readonly touched_at: Date;
    readonly finished_at: Date | null;
    readonly states: readonly string[] | null;
    readonly listing: unknown;
  };
  readonly rev_clock: {
    readonly id: number;
    readonly seq: number;
    readonly epoch: string;
    readonly head: Buffer;
    readonly epoch_at: Date | null;
  };
  readonly revocation_followers: {
    readonly lock_key: number;
    readonly process: string;
    readonly seq: number;
    readonly applied_at: Date;
    readonly region: string | null;
    readonly lease_ms: number | null;
    readonly seen_at: Date | null;
    readonly via: number | null;
    readonly version: string | null;
  };
  readonly revocation_notices: {
    readonly id: number;
    readonly kind: string;
    readonly target: string;
    readonly tenant_id: string;
    readonly reason: string | null;
    readonly actor: string;
    readonly at: Date;
    readonly details: unknown;
  };
  readonly revocations: {
    readonly seq: number;
    readonly id: string;
    readonly kind: "credential" | "principal" | "tenant" | "jti" | "kid" | "cert" | "policy";
    readonly target: string;
    readonly tenant_id: string | null;
    readonly reason: string | null;
    readonly actor: string;
    readonly at: Date;
    readonly expires_at: Date | null;
    readonly log_index: number;
    readonly leaf_hash: Buffer;
    readonly issued_before: number | null;
    readonly slowest_ms: number | null;
    readonly propagated_at: Date | null;
    readonly processes: unknown;
  };
  readonly roles: {
    readonly id: string;
    readonly tenant_id: string;
    readonly name: string;
    readonly scopes: readonly string[];
    readonly created_at: Date;
  };
  readonly schema_migrations: {
    readonly version: number;
    readonly name: string;
    readonly sha256: string;
    readonly applied_at: Date;
  };
  readonly secret_versions: {
    readonly credential_id: string;
    readonly version: number;
    readonly tenant_id: string;
    readonly mac: Buffer;
    readonly mac_key_id: string;
    readonly state: "PENDING" | "ACTIVE" | "RETIRING" | "RETIRED" | "REVOKED";
    readonly issued_at: Date;
    readonly due_at: Date | null;
    readonly acked_at: Date | null;
    readonly last_used_at: Date | null;
    readonly retire_by: Date | null;
    readonly wrapped: string | null;
    readonly superseded_at: Date | null;
    readonly retired_at: Date | null;
    readonly retired_reason: "quiet" | "age" | null;
    readonly rescue_ended: boolean;
    readonly delivered_count: number;
    readonly delivered_reported: number;
    readonly delivered_reported_at: Date | null;
    readonly due_reported_at: Date | null;
    readonly next_alert_at: Date | null;
    readonly rescue_reported_at: Date | null;
    readonly misuse_reported_at: Date | null;
  };
  readonly signing_keys: {
    readonly kid: string;
    readonly alg: "ES256" | "RS256" | "Ed25519";
    readonly public_jwk: unknown;
    readonly private_key: string;
    readonly state: "NEXT" | "CURRENT" | "PREVIOUS" | "GONE";
    readonly created_at: Date;
    readonly activated_at: Date | null;
    readonly retired_at: Date | null;
    readonly revoked_at: Date | null;
    readonly revocation_reason: string | null;
    readonly purpose: string;
    readonly set_state: string | null;
    readonly set_activated_at: Date | null;
    readonly set_retired_at: Date | null;
  };
  readonly ssf_polled_sets: {
    readonly stream_id: string;
    readonly id: string;
    readonly tenant_id: string;
    readonly event_id: string;
    readonly created_at: Date;
  };
  readonly ssf_removed_subjects: {
    readonly stream_id: string;
    readonly subject: string;
    readonly tenant_id: string;
  };
  readonly ssf_streams: {
    readonly id: string;
    readonly tenant_id: string;
    readonly issuer: string;
    readonly endpoint_id: string | null;
    readonly events_requested: readonly string[] | null;
    readonly description: string | null;
    readonly status: "enabled" | "paused" | "disabled";
    readonly status_reason: string | null;
    readonly verification_at: Date | null;
    readonly created_at: Date;
  };
  readonly status_list_tokens: {
    readonly list: number;
    readonly credential_id: string;
    readonly place: number;
    readonly issued_at: number;
    readonly certificate: Buffer | null;
  };
  readonly status_lists: {
    readonly id: string;
    readonly number: number;
    readonly order_key: Buffer;
    readonly reserved: number;
    readonly created_at: Date;
    readonly last_reserved_at: Date;
    readonly taken: number | null;
  };
  readonly tenants: {
    readonly id: string;
    readonly name: string;
    readonly region: string;
    readonly state: "ACTIVE" | "SUSPENDED" | "ERASED";
    readonly platform: boolean;
    readonly data_key: string;
    readonly created_at: Date;
    readonly held_at: Date | null;
    readonly limits: unknown;
    readonly erased_at: Date | null;
    readonly erasure_completed_at: Date | null;
    readonly portal_brand: unknown;
    readonly changed_by: string | null;
  };
  readonly uncounted_hours: {
    readonly hour: Date;
  };
  readonly unstarted_lists: {
    readonly carrier: string;
    readonly worker: string;
    readonly first_day: string;
    readonly last_day: string;
    readonly first_id: string;
    readonly last_id: string;
    readonly opened_at: Date;
  };
  readonly workers: {
    readonly id: string;
    readonly seen_at: Date;
    readonly attempts_per_second: number;
  };
}

/** A row of a table, or the members of it that a statement reads. */
export type Row<Table extends keyof Tables, Columns extends keyof Tables[Table] = keyof Tables[Table]> = Pick<
  Tables[Table],
  Columns
>;
