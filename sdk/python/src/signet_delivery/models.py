"""The bodies of requests and responses, from the schemas of the service's routes: `npm run docs` writes this file.

Times in responses are RFC 3339, in UTC with milliseconds. Responses may get new members, and enums new words.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Mapping, Optional, Sequence, TypedDict, Union, final


@final
class AcceptedBatch(TypedDict):
    data: Sequence[BatchItem]


class _AcceptedBatchItem(TypedDict):
    index: int
    id: str
    type: str
    created_at: str
    #: Number of endpoints that get the event.
    deliveries: int


@final
class AcceptedBatchItem(_AcceptedBatchItem, total=False):
    #: True, and present, if the result is that of an earlier event with the same `id`. A repeated
    #: batch has the header `Idempotent-Replayed` instead.
    replayed: bool


@final
class AcceptedEvent(TypedDict):
    id: str
    type: str
    created_at: str
    #: Number of endpoints that get the event.
    deliveries: int


AcceptedEventOrBatch = Union["AcceptedEvent", "AcceptedBatch"]


class _AddedSubject(TypedDict):
    stream_id: str
    subject: SubjectIdentifier


class AddedSubject(_AddedSubject, total=False):
    #: Has no effect.
    verified: bool


class _Attempt(TypedDict):
    id: str
    cycle: int
    attempt: int
    started_at: str
    #: Null while the request is in flight.
    duration_ms: Optional[int]
    status: Optional[int]
    error: Optional[Literal["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"]]
    #: The first 4 KiB; erased with the event's content.
    response_body: Optional[str]


class Attempt(_Attempt, total=False):
    #: True if a resend began its cycle; otherwise absent.
    resend: bool


class AttemptPage(TypedDict):
    data: Sequence[Attempt]
    next_cursor: Optional[str]


Authentication = Union["HeaderAuthentication", "OAuth2Authentication", "CertificateAuthentication"]


NewAuthentication = Union["NewHeaderAuthentication", "NewOAuth2Authentication", "NewCertificateAuthentication"]


AuthorizationServerMetadata = Mapping[str, Any]


BatchItem = Union["AcceptedBatchItem", "RefusedBatchItem"]


@final
class CertificateAuthentication(TypedDict):
    type: Literal["client_certificate"]
    #: SHA-256 of the certificate.
    fingerprint: str
    subject: str
    not_after: str
    updated_at: str


@final
class NewCertificateAuthentication(TypedDict):
    type: Literal["client_certificate"]
    #: PEM, followed by the intermediate certificates.
    certificate: str
    #: PEM, unencrypted.
    private_key: str


class ClientKeySet(TypedDict):
    keys: Sequence[Mapping[str, Any]]


class ComplianceCheckpoint(TypedDict):
    #: Number of the checkpoint, from 1 without gaps.
    seq: int
    #: Number of entries in the tree.
    size: int
    #: Root hash of the tree, hexadecimal.
    root: str
    #: Signed note (c2sp.org/tlog-checkpoint).
    note: str
    #: The key that signed it, `name+id+key`, as the service claims; null if unknown. This suffices
    #: to notice a later change of key. To trust the log, get the key from the operators through
    #: another channel.
    verifier_key: Optional[str]
    signed_at: str


class ComplianceEntry(TypedDict):
    #: Index in the log, from 0 without gaps.
    index: int
    at: str
    type: str
    actor: str
    tenant_id: Optional[str]
    target: Optional[str]
    reason: Optional[str]
    request_id: Optional[str]
    details: Mapping[str, Any]
    #: RFC 6962 leaf hash of the entry, hexadecimal.
    leaf_hash: str


class ComplianceEntryPage(TypedDict):
    data: Sequence[ComplianceEntry]
    next_cursor: Optional[str]


class ComplianceEntryWithBytes(TypedDict):
    #: Index in the log, from 0 without gaps.
    index: int
    at: str
    type: str
    actor: str
    tenant_id: Optional[str]
    target: Optional[str]
    reason: Optional[str]
    request_id: Optional[str]
    details: Mapping[str, Any]
    #: RFC 6962 leaf hash of the entry, hexadecimal.
    leaf_hash: str
    #: The bytes that the leaf hash covers: canonical JSON, in base64.
    entry: str


ConsistencyProof = TypedDict(
    "ConsistencyProof",
    {
        "from": int,
        # The newest checkpoint's size by default
        "to": int,
        # RFC 6962 section 2.1.2
        "hashes": Sequence[str],
    },
)


class _CreatedCredential(TypedDict):
    id: str
    principal_id: str
    client_id: str
    #: A name for humans.
    name: Optional[str]
    state: Literal["ACTIVE", "REVOKED"]
    rotation_mode: Literal["in_band", "workload", "manual"]
    san_uri: Optional[str]
    certificate_thumbprints: Sequence[str]
    created_at: str
    revoked_at: Optional[str]
    ends_at: Optional[str]
    replaced_by: Optional[str]
    #: Only its signed events are accepted.
    signature_required: bool
    due_at: Optional[str]
    #: When one of its secrets last authenticated; null for a workload credential.
    last_used_at: Optional[str]
    #: Its rotation was due at least a week ago and the successor is not in use.
    overdue: bool
    version: Optional[int]


class CreatedCredential(_CreatedCredential, total=False):
    #: Shown only here, and to a repeated request with the same Idempotency-Key within 24 hours;
    #: absent for a workload credential.
    client_secret: str


class CreatedSigningSecret(TypedDict):
    version: int
    state: Literal["GOOD", "ENDED", "REVOKED"]
    #: First 8 hex digits of the secret's SHA-256.
    fingerprint: str
    created_at: str
    last_used_at: Optional[str]
    ends_at: Optional[str]
    revoked_at: Optional[str]
    #: Shown only here, and to a repeated request with the same Idempotency-Key within 24 hours.
    secret: str


class Credential(TypedDict):
    id: str
    principal_id: str
    client_id: str
    #: A name for humans.
    name: Optional[str]
    state: Literal["ACTIVE", "REVOKED"]
    rotation_mode: Literal["in_band", "workload", "manual"]
    san_uri: Optional[str]
    certificate_thumbprints: Sequence[str]
    created_at: str
    revoked_at: Optional[str]
    ends_at: Optional[str]
    replaced_by: Optional[str]
    #: Only its signed events are accepted.
    signature_required: bool
    due_at: Optional[str]
    #: When one of its secrets last authenticated; null for a workload credential.
    last_used_at: Optional[str]
    #: Its rotation was due at least a week ago and the successor is not in use.
    overdue: bool


class CredentialChange(TypedDict):
    #: Accepts only signed events of the credential.
    signature_required: bool


class CredentialDetails(TypedDict):
    id: str
    principal_id: str
    client_id: str
    #: A name for humans.
    name: Optional[str]
    state: Literal["ACTIVE", "REVOKED"]
    rotation_mode: Literal["in_band", "workload", "manual"]
    san_uri: Optional[str]
    certificate_thumbprints: Sequence[str]
    created_at: str
    revoked_at: Optional[str]
    ends_at: Optional[str]
    replaced_by: Optional[str]
    #: Only its signed events are accepted.
    signature_required: bool
    due_at: Optional[str]
    #: When one of its secrets last authenticated; null for a workload credential.
    last_used_at: Optional[str]
    #: Its rotation was due at least a week ago and the successor is not in use.
    overdue: bool
    versions: Sequence[SecretVersion]


class NewCredential(TypedDict, total=False):
    #: A name for humans.
    name: Optional[str]
    #: SPIFFE id in the certificate.
    san_uri: Optional[str]
    certificate_thumbprints: Sequence[str]
    rotation_mode: Literal["workload"]
    jwks: ClientKeySet
    principal_id: str
    #: The credential to replace. Its tokens expire up to 15 minutes after it ends. Revoke it too if
    #: it is compromised.
    replaces: str
    #: How long the replaced credential still gets tokens; 24 hours by default; 0 to 2,592,000.
    overlap_seconds: int


class CredentialPage(TypedDict):
    data: Sequence[Credential]
    next_cursor: Optional[str]


class CredentialRotation(TypedDict):
    """The next secret: store it first, then use it; its first use retires the current secret."""

    credential_id: str
    version: int
    client_secret: str
    predecessor_retires_by: str


class DeadLetter(TypedDict):
    id: str
    event_id: str
    event_type: str
    endpoint_id: str
    state: Literal["QUEUED", "RETRYING", "DELIVERED", "DEAD_LETTERED", "EXPIRED", "CANCELLED"]
    #: Number of the cycle: 1, plus 1 for each replay or resend.
    cycle: int
    #: Completed attempts in this cycle, of 17.
    attempt_count: int
    next_attempt_at: Optional[str]
    last_status: Optional[int]
    last_error: Optional[Literal["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"]]
    #: The Temporal workflow that makes the delivery or holds the dead letter; null until a worker
    #: claims the delivery, and for seconds between two workflows.
    workflow_id: Optional[str]
    created_at: str
    delivered_at: Optional[str]
    dead_lettered_at: Optional[str]
    expires_at: Optional[str]
    reason: Optional[Literal["attempts_exhausted", "endpoint_disabled"]]
    event: Optional[Mapping[str, Any]]


DeadLetterFilter = TypedDict(
    "DeadLetterFilter",
    {
        "endpoint_id": str,
        "event_id": str,
        "event_type": str,
        "state": Literal["QUEUED", "RETRYING", "DELIVERED", "DEAD_LETTERED", "EXPIRED", "CANCELLED"],
        "from": Union[str, datetime],
        "to": Union[str, datetime],
        "last_error": Literal["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"],
        # 100 to 999
        "last_status": int,
        "reason": Literal["attempts_exhausted", "endpoint_disabled"],
        # Selects endpoints whose metadata has these members with these values, compared as strings;
        # metadata[key]=value in a query
        "metadata": Mapping[str, str],
    },
    total=False,
)


class DeadLetterGroup(TypedDict):
    endpoint_id: str
    reason: Literal["attempts_exhausted", "endpoint_disabled"]
    last_error: Optional[Literal["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"]]
    #: A stored count: up to a second late when dead letters expire.
    count: int


class DeadLetterGroupPage(TypedDict):
    data: Sequence[DeadLetterGroup]
    next_cursor: Optional[str]


class DeadLetterPage(TypedDict):
    data: Sequence[DeadLetter]
    next_cursor: Optional[str]


class DeadLetterReplay(TypedDict, total=False):
    ids: Sequence[str]
    filter: DeadLetterFilter
    #: Only counts; creates no job.
    dry_run: bool
    #: Maximum replays per second; 500 by default; 1 to 5,000.
    rate_per_second: int


class DeadLetterSummary(TypedDict):
    #: A stored count: up to a second late when dead letters expire.
    total: int
    oldest_at: Optional[str]
    first_expires_at: Optional[str]


class Delivery(TypedDict):
    id: str
    event_id: str
    event_type: str
    endpoint_id: str
    state: Literal["QUEUED", "RETRYING", "DELIVERED", "DEAD_LETTERED", "EXPIRED", "CANCELLED"]
    #: Number of the cycle: 1, plus 1 for each replay or resend.
    cycle: int
    #: Completed attempts in this cycle, of 17.
    attempt_count: int
    next_attempt_at: Optional[str]
    last_status: Optional[int]
    last_error: Optional[Literal["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"]]
    #: The Temporal workflow that makes the delivery or holds the dead letter; null until a worker
    #: claims the delivery, and for seconds between two workflows.
    workflow_id: Optional[str]
    created_at: str
    delivered_at: Optional[str]
    dead_lettered_at: Optional[str]
    expires_at: Optional[str]


DeliveryFilter = TypedDict(
    "DeliveryFilter",
    {
        "endpoint_id": str,
        "event_id": str,
        "event_type": str,
        "from": Union[str, datetime],
        "to": Union[str, datetime],
        "last_error": Literal["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"],
        # 100 to 999
        "last_status": int,
        "reason": Literal["attempts_exhausted", "endpoint_disabled"],
        # Selects endpoints whose metadata has these members with these values, compared as strings;
        # metadata[key]=value in a query
        "metadata": Mapping[str, str],
    },
    total=False,
)


class DeliveryHour(TypedDict):
    hour: str
    #: Deliveries accepted in this hour.
    total: int
    delivered: int
    #: Deliveries in the dead-letter queue, or expired there.
    dead_lettered: int
    #: Attempts that ended in this hour.
    attempts: int
    failed_attempts: int
    #: Milliseconds from acceptance to acknowledgement; null without deliveries.
    latency_p50_ms: Optional[int]
    #: Milliseconds from acceptance to acknowledgement; null without deliveries.
    latency_p95_ms: Optional[int]
    #: False if the hour has more than 1,000 deliveries: the numbers then cover the newest 1,000.
    complete: bool


class DeliveryPage(TypedDict):
    data: Sequence[Delivery]
    next_cursor: Optional[str]


class DeliveryStats(TypedDict):
    #: 24 hours, oldest first.
    data: Sequence[DeliveryHour]


@final
class DuplicateEvent(TypedDict):
    #: True: an earlier request has published the event.
    duplicate: bool


DuplicateEventOrAcceptedEventOrAcceptedBatch = Union["DuplicateEvent", "AcceptedEvent", "AcceptedBatch"]


class _Endpoint(TypedDict):
    id: str
    url: str
    events: Sequence[str]
    metadata: Optional[Mapping[str, Any]]
    description: Optional[str]
    #: A query document with MongoDB operators on type and data; null matches every event.
    filter: Optional[Mapping[str, Any]]
    headers: Mapping[str, str]
    authentication: Optional[Authentication]
    require_echo: bool
    #: Maximum deliveries per second; the others wait. Null for no limit; 1 to 1,000.
    rate_limit: Optional[int]
    state: Literal["PENDING", "ACTIVE", "DISABLED"]
    disabled_reason: Optional[Literal["tenant", "failing", "gone"]]
    health: EndpointHealth
    created_at: str
    updated_at: str
    verification: EndpointVerification


class Endpoint(_Endpoint, total=False):
    #: The stream of security events that it belongs to, whose routes change it; absent otherwise.
    ssf_stream: str


class EndpointChange(TypedDict, total=False):
    url: str
    #: Event types, or `*` as the only item for all of them.
    events: Sequence[str]
    metadata: Optional[Mapping[str, Any]]
    description: Optional[str]
    #: A query document with MongoDB operators on type and data; null matches every event.
    filter: Optional[Mapping[str, Any]]
    #: Additional headers of every request, 16 at most. Responses show them: put secrets into
    #: authentication.
    headers: Optional[Mapping[str, str]]
    authentication: Optional[NewAuthentication]
    #: Only a response that contains the ping's challenge verifies the endpoint.
    require_echo: bool
    #: Maximum deliveries per second; the others wait. Null for no limit; 1 to 1,000.
    rate_limit: Optional[int]


class EndpointHealth(TypedDict):
    """Derived from the last 20 attempts. `failing`: the last 5 failed, or 10 failed and the last 3
    did not all succeed. `degraded`: 3 or more failed. `unknown`: there was no attempt yet, or the
    endpoint is `PENDING`. `since` is when the status last changed, `failing_since` when the current
    row of failures began. About a second old."""

    status: Literal["healthy", "degraded", "failing", "unknown"]
    since: Optional[str]
    failing_since: Optional[str]
    last_error: Optional[LastFailure]
    last_hour: RecentAttempts
    #: Deliveries that wait for another attempt.
    retrying: int
    #: Deliveries in the dead-letter queue.
    dead_letters: int


class _NewEndpoint(TypedDict):
    url: str
    #: Event types, or `*` as the only item for all of them.
    events: Sequence[str]


class NewEndpoint(_NewEndpoint, total=False):
    metadata: Optional[Mapping[str, Any]]
    description: Optional[str]
    #: A query document with MongoDB operators on type and data; null matches every event.
    filter: Optional[Mapping[str, Any]]
    #: Additional headers of every request, 16 at most. Responses show them: put secrets into
    #: authentication.
    headers: Optional[Mapping[str, str]]
    authentication: Optional[NewAuthentication]
    #: Only a response that contains the ping's challenge verifies the endpoint.
    require_echo: bool
    #: Maximum deliveries per second; the others wait. Null for no limit; 1 to 1,000.
    rate_limit: Optional[int]


class EndpointPage(TypedDict):
    data: Sequence[Endpoint]
    next_cursor: Optional[str]


class EndpointSecretVersion(TypedDict):
    version: int
    state: Literal["NEXT", "CURRENT", "PREVIOUS", "RETIRED"]
    #: First 8 hex digits of the SHA-256 of the secret's text.
    fingerprint: str
    created_at: str
    current_at: Optional[str]
    signs_until: Optional[str]
    retired_at: Optional[str]
    #: Ed25519: whpk_ and the base64 of 32 bytes; verifies v1a signatures.
    public_key: Optional[str]
    #: A secret from a scheduled rotation, as a JWE to the recipient's key.
    encrypted_secret: Optional[str]


class EndpointSecretVersions(TypedDict):
    endpoint_id: str
    signing: Literal["hmac-sha256", "ed25519"]
    #: 1 to 365.
    rotation_days: Optional[int]
    recipient: Optional[Mapping[str, Any]]
    data: Sequence[EndpointSecretVersion]


class EndpointVerification(TypedDict):
    workflow_id: str
    attempts: int
    last_error: Optional[str]
    next_attempt_at: Optional[str]
    verified_at: Optional[str]
    verified_by: Optional[Literal["status", "echo"]]


class _EventBatch(TypedDict):
    events: Sequence[NewEvent]


@final
class EventBatch(_EventBatch, total=False):
    #: The batch's id; only in a signed body.
    id: str
    #: Unix seconds, as in the header X-Service-Timestamp; only in a signed body; 0 to
    #: 999,999,999,999.
    sent_at: int


class _NewEvent(TypedDict):
    type: str
    data: Mapping[str, Any]


@final
class NewEvent(_NewEvent, total=False):
    #: The publisher's own id. An event repeated with the same id within 24 hours is published once.
    id: str
    occurred_at: Union[str, datetime]
    tenant_id: str
    #: Unix seconds, as in the header X-Service-Timestamp; only in a signed body; 0 to
    #: 999,999,999,999.
    sent_at: int


NewEventOrBatch = Union["NewEvent", "EventBatch"]


class EventType(TypedDict):
    name: str
    description: Optional[str]
    #: The version that events are validated against; null for no validation.
    schema_version: Optional[int]
    schema: Optional[Mapping[str, Any]]
    examples: Sequence[Mapping[str, Any]]
    deprecated_at: Optional[str]
    replaced_by: Optional[str]
    archived_at: Optional[str]
    created_at: str
    updated_at: str


class EventTypeChange(TypedDict, total=False):
    description: Optional[str]
    schema: Optional[Mapping[str, Any]]
    examples: Sequence[Mapping[str, Any]]
    replaced_by: Optional[str]
    deprecated: bool
    #: 1 to 1,000.
    schema_version: Optional[int]
    archived: bool


class _NewEventType(TypedDict):
    name: str


class NewEventType(_NewEventType, total=False):
    description: Optional[str]
    schema: Optional[Mapping[str, Any]]
    examples: Sequence[Mapping[str, Any]]
    replaced_by: Optional[str]
    deprecated: bool


class EventTypePage(TypedDict):
    data: Sequence[EventType]
    next_cursor: Optional[str]


class EventTypeSchema(TypedDict):
    version: int
    created_at: str
    schema: Mapping[str, Any]


class EventTypeSchemaPage(TypedDict):
    data: Sequence[EventTypeSchema]
    next_cursor: Optional[str]


class Grade(TypedDict):
    id: str
    endpoint_id: str
    state: Literal["QUEUED", "RUNNING", "COMPLETED", "FAILED"]
    failure: Optional[Literal["endpoint_not_active", "interrupted"]]
    created_at: str
    finished_at: Optional[str]
    #: Progress: requests sent, of `checks_total`.
    checks_made: int
    checks_total: int
    report: Optional[GradeReport]


class GradeCheck(TypedDict):
    name: str
    expected: Literal["accept", "refuse", "either"]
    verdict: Literal["passed", "failed", "not_performed"]
    status: Optional[int]
    error: Optional[Literal["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"]]
    duration_ms: Optional[int]


class GradeFinding(TypedDict):
    code: str
    severity: Literal["critical", "major", "minor"]
    checks: Sequence[str]
    problem: str
    advice: str


class GradeReport(TypedDict):
    #: 100 means no findings; 0 to 100.
    score: int
    findings: Sequence[GradeFinding]
    #: Findings that need a report from the receiver, since they cannot be observed from outside.
    not_observed: Sequence[UnobservedFinding]
    checks: Sequence[GradeCheck]


class GradeSummary(TypedDict):
    id: str
    endpoint_id: str
    state: Literal["QUEUED", "RUNNING", "COMPLETED", "FAILED"]
    failure: Optional[Literal["endpoint_not_active", "interrupted"]]
    created_at: str
    finished_at: Optional[str]
    #: The report's score; null until there is a report; 0 to 100.
    score: Optional[int]


class GradeSummaryPage(TypedDict):
    data: Sequence[GradeSummary]
    next_cursor: Optional[str]


@final
class HeaderAuthentication(TypedDict):
    type: Literal["header"]
    name: str
    updated_at: str


@final
class NewHeaderAuthentication(TypedDict):
    type: Literal["header"]
    name: str
    value: str


class InclusionProof(TypedDict):
    index: int
    #: The newest checkpoint's size by default.
    tree_size: int
    leaf_hash: str
    #: From the leaf to the root (RFC 6962 section 2.1.1).
    hashes: Sequence[str]


class Introspection(TypedDict):
    """Includes the claims of an active token."""

    active: bool


class JsonWebKeySet(TypedDict):
    keys: Sequence[Mapping[str, Any]]


class LastFailure(TypedDict):
    at: str
    status: Optional[int]
    error: Literal["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"]


class _Leak(TypedDict):
    #: What leaked: a client id (cl_…), a credential's id (crd_…), a client secret (sgn_…), a
    #: signing secret (whsec_…), a whole access token, a jti, a key id, or a certificate's SHA-256.
    #: Secrets and tokens are neither stored nor logged.
    target: str


class Leak(_Leak, total=False):
    #: The reason, for the compliance log; no personal data.
    reason: str
    #: Also holds the tenant: its deliveries wait and its endpoints' secrets do not rotate.
    scope: Literal["tenant"]


class LeakRevocation(TypedDict):
    revoked: Sequence[RevokedObject]
    revocation_id: str
    #: Sequence number, without gaps in the whole deployment.
    sequence: int
    committed_at: str
    compliance: RevocationEntry
    edges: RevocationReach


class _MissedEvents(TypedDict):
    since: Union[str, datetime]


class MissedEvents(_MissedEvents, total=False):
    until: Union[str, datetime]
    #: Only counts; creates no job.
    dry_run: bool
    #: Maximum replays per second; 500 by default; 1 to 5,000.
    rate_per_second: int


class _OAuth2Authentication(TypedDict):
    type: Literal["oauth2_client_credentials"]
    token_url: str
    client_id: str
    updated_at: str


@final
class OAuth2Authentication(_OAuth2Authentication, total=False):
    scope: str


class _NewOAuth2Authentication(TypedDict):
    type: Literal["oauth2_client_credentials"]
    token_url: str
    client_id: str
    client_secret: str


@final
class NewOAuth2Authentication(_NewOAuth2Authentication, total=False):
    scope: str


class PollAnswer(TypedDict):
    #: Signed tokens by `jti`.
    sets: Mapping[str, str]
    moreAvailable: bool


class PollRequest(TypedDict, total=False):
    #: Most tokens in the answer: 100 at most and by default; 0 only acknowledges; 0 to
    #: 2,147,483,647.
    maxEvents: int
    #: Whether to answer at once if there are no tokens; by default after 20 seconds.
    returnImmediately: bool
    #: Tokens that need not be sent again.
    ack: Sequence[str]
    #: Errors of tokens that the receiver cannot use, by `jti`. They are not sent again.
    setErrs: Mapping[str, SetError]


class PortalLink(TypedDict):
    #: Valid for one sign-in; anybody who has it can use it.
    url: str
    expires_at: str


class NewPortalLink(TypedDict, total=False):
    #: Lifetime of the link; 300 by default; 1 to 900.
    expires_in_seconds: int
    #: Scopes of the session, a subset of the token's; by default all of them.
    scopes: Sequence[str]


class RecentAttempts(TypedDict):
    """Attempts of the current clock hour and the one before it."""

    since: str
    attempts: int
    succeeded: int


@final
class RefusedBatchItem(TypedDict):
    index: int
    error: Mapping[str, Any]


class _RegisteredEndpoint(TypedDict):
    id: str
    url: str
    events: Sequence[str]
    metadata: Optional[Mapping[str, Any]]
    description: Optional[str]
    #: A query document with MongoDB operators on type and data; null matches every event.
    filter: Optional[Mapping[str, Any]]
    headers: Mapping[str, str]
    authentication: Optional[Authentication]
    require_echo: bool
    #: Maximum deliveries per second; the others wait. Null for no limit; 1 to 1,000.
    rate_limit: Optional[int]
    state: Literal["PENDING", "ACTIVE", "DISABLED"]
    disabled_reason: Optional[Literal["tenant", "failing", "gone"]]
    health: EndpointHealth
    created_at: str
    updated_at: str
    verification: EndpointVerification
    #: Shown only here.
    secret: str


class RegisteredEndpoint(_RegisteredEndpoint, total=False):
    #: The stream of security events that it belongs to, whose routes change it; absent otherwise.
    ssf_stream: str


class RemovedSubject(TypedDict):
    stream_id: str
    subject: SubjectIdentifier


class _ReplayCount(TypedDict):
    #: True: nothing was created.
    dry_run: bool
    total: int


@final
class ReplayCount(_ReplayCount, total=False):
    #: How many of them would fail now, because their endpoint is disabled, unverified or deleted.
    #: Present if any would.
    would_fail: int
    #: True, and present, if 500000 deliveries or more would have to be compared: the oldest of them
    #: were counted.
    at_least: bool


ReplayCountOrReplayJob = Union["ReplayCount", "ReplayJob"]


class _NewReplay(TypedDict):
    filter: DeliveryFilter


class NewReplay(_NewReplay, total=False):
    #: By default, `DEAD_LETTERED` and `RETRYING`.
    states: Optional[Sequence[Literal["DEAD_LETTERED", "RETRYING", "DELIVERED", "CANCELLED", "EXPIRED"]]]
    #: Only counts; creates no job.
    dry_run: bool
    #: Maximum replays per second; 500 by default; 1 to 5,000.
    rate_per_second: int


class ReplayItem(TypedDict):
    #: Position in the order of replay, from 1.
    position: int
    delivery_id: Optional[str]
    event_id: Optional[str]
    state: Literal["WAITING", "DONE", "SKIPPED", "FAILED", "CANCELLED"]
    reason: Optional[Literal["not_in_queue", "state_changed", "content_erased", "delivery_exists", "expired", "not_found", "endpoint_disabled", "endpoint_unavailable"]]
    outcome: Optional[Literal["DELIVERED", "RETRYING", "FAILED", "CANCELLED", "WAITING"]]


class ReplayItemPage(TypedDict):
    data: Sequence[ReplayItem]
    next_cursor: Optional[str]


@final
class ReplayJob(TypedDict):
    id: str
    kind: Literal["dead_letters", "deliveries", "missing"]
    endpoint_id: Optional[str]
    #: Selected states; null for other kinds.
    states: Optional[Sequence[Literal["DEAD_LETTERED", "RETRYING", "DELIVERED", "CANCELLED", "EXPIRED"]]]
    state: Literal["RUNNING", "PAUSED", "COMPLETED", "CANCELLED"]
    #: Items so far; final once `listing` is false.
    total: int
    #: Whether items are still being listed, while the first are replayed.
    listing: bool
    #: Replayed items, and retries that were made due.
    done: int
    #: Items that could not be replayed: expired, not found, or their endpoint is disabled or
    #: deleted.
    failed: int
    #: Items that need no replay: changed since, erased, or already delivered.
    skipped: int
    rate_per_second: int
    created_at: str
    finished_at: Optional[str]


class ReplayJobPage(TypedDict):
    data: Sequence[ReplayJob]
    next_cursor: Optional[str]


class _ReplayOutcomes(TypedDict):
    delivered: int
    #: Failed at least once since, and is retried.
    retrying: int
    #: Dead letters again.
    failed: int
    cancelled: int
    #: No outcome yet.
    waiting: int


class ReplayOutcomes(_ReplayOutcomes, total=False):
    """What the replays of a job have come to."""

    #: Items that were looked at, the first of the job. Present if the job has more than 100000.
    counted: int


class Revocation(TypedDict):
    revocation_id: str
    #: Sequence number, without gaps in the whole deployment.
    sequence: int
    committed_at: str
    compliance: RevocationEntry
    edges: RevocationReach


class RevocationEntry(TypedDict):
    log_index: int
    #: RFC 6962 leaf hash of the entry, hexadecimal.
    leaf_hash: str


class RevocationProcess(TypedDict):
    #: Identifies the process in its log (`follower`).
    id: str
    #: `edge`, `api` or `hub`.
    kind: str
    #: Region of the process (`SIGNET_REGION`); null if it is not set.
    region: Optional[str]
    state: Literal["applied", "lease_expired", "pending"]
    #: Upper bound of the time to its confirmation; null without one, or if it started later.
    ms: Optional[int]


class RevocationReach(TypedDict):
    #: Connected processes that admit tokens.
    live: int
    #: Processes that confirmed the revocation; the others admit no request until they do.
    acked: int
    #: Upper bound of the slowest confirmation, in milliseconds.
    max_ms: Optional[int]
    outcome: Literal["applied", "slow_but_safe", "pending", "unknown"]
    #: The outcome in words: `applied` by every process in time; `slow_but_safe`, when a process did
    #: not confirm in time but its lease had expired, so it admits no request; `pending`, when a
    #: process may still admit tokens; `unknown`.
    summary: str
    #: Connected processes, and those that lost their connection in the last two minutes: at most
    #: 200, those without a confirmation first.
    processes: Sequence[RevocationProcess]


class RevocationRequest(TypedDict, total=False):
    #: The reason, for the compliance log; no personal data.
    reason: str
    #: Also holds the tenant: its deliveries wait and its endpoints' secrets do not rotate.
    scope: Literal["tenant"]


class RevokedObject(TypedDict):
    kind: Literal["credential", "signing_secret", "jti", "kid", "cert"]
    #: Id of the credential, also of a signing secret; jti of the token; key id; SHA-256 of the
    #: certificate.
    target: str
    tenant_id: Optional[str]
    #: The credential; for a token, the one that got it.
    credential_id: Optional[str]
    client_id: Optional[str]
    #: Version of the secret that leaked.
    version: Optional[int]
    expires_at: Optional[str]
    #: Whether the token had already expired.
    expired: bool


class RotatedEndpointSecret(TypedDict):
    endpoint_id: str
    version: int
    state: Literal["NEXT", "CURRENT", "PREVIOUS", "RETIRED"]
    #: First 8 hex digits of the SHA-256 of the secret's text.
    fingerprint: str
    created_at: str
    current_at: Optional[str]
    signs_until: Optional[str]
    retired_at: Optional[str]
    #: Ed25519: whpk_ and the base64 of 32 bytes; verifies v1a signatures.
    public_key: Optional[str]
    #: A secret from a scheduled rotation, as a JWE to the recipient's key.
    encrypted_secret: Optional[str]
    #: Shown only here.
    secret: str


class _SecretRecipient(TypedDict):
    kty: Literal["RSA", "EC", "OKP"]


class SecretRecipient(_SecretRecipient, total=False):
    crv: Literal["P-256", "P-384", "P-521", "X25519"]
    n: str
    e: str
    x: str
    y: str
    kid: str
    use: Literal["enc"]
    alg: Literal["RSA-OAEP-256", "ECDH-ES+A256KW"]


class SecretRotation(TypedDict, total=False):
    #: How long both secrets sign before the new one becomes the primary one, and again afterwards.
    #: Use 0 for a compromised secret: every earlier one stops signing at once; 0 to 604,800; 86,400
    #: by default.
    overlap_seconds: int
    #: The caller's own secret: whsec_ and the base64 of 24 to 64 bytes. Generated by the service by
    #: default.
    secret: str


class SecretSettings(TypedDict, total=False):
    signing: Literal["hmac-sha256", "ed25519"]
    #: 1 to 365.
    rotation_days: Optional[int]
    recipient: Optional[SecretRecipient]


class SecretVersion(TypedDict):
    version: int
    state: Literal["PENDING", "ACTIVE", "RETIRING", "RETIRED", "REVOKED"]
    issued_at: str
    due_at: Optional[str]
    acked_at: Optional[str]
    last_used_at: Optional[str]
    superseded_at: Optional[str]
    retire_by: Optional[str]
    retired_at: Optional[str]
    #: How often it was returned as a successor.
    delivered_count: int


class _SetError(TypedDict):
    err: str


class SetError(_SetError, total=False):
    description: str


class SigningSecret(TypedDict):
    version: int
    state: Literal["GOOD", "ENDED", "REVOKED"]
    #: First 8 hex digits of the secret's SHA-256.
    fingerprint: str
    created_at: str
    last_used_at: Optional[str]
    ends_at: Optional[str]
    revoked_at: Optional[str]


class SigningSecretList(TypedDict):
    data: Sequence[SigningSecret]


class SigningSecretRevocation(TypedDict, total=False):
    #: The version to revoke; all by default; 1 to 2,147,483,647.
    version: int
    reason: str


class SigningSecretRotation(TypedDict, total=False):
    #: How long the previous version stays valid; 24 hours by default, 0 ends all other versions
    #: now; 0 to 604,800.
    overlap_seconds: int


SsfConfiguration = Mapping[str, Any]


class StatusListAggregation(TypedDict):
    status_lists: Sequence[str]


class StoredEvent(TypedDict):
    id: str
    type: str
    source_id: Optional[str]
    occurred_at: str
    created_at: str
    deliveries: int
    content_erased_at: Optional[str]
    #: Null once it is erased.
    data: Optional[Mapping[str, Any]]


class StoredEventPage(TypedDict):
    data: Sequence[StoredEvent]
    next_cursor: Optional[str]


class _Stream(TypedDict):
    stream_id: str
    #: `iss` of the tokens.
    iss: str
    #: `aud` of the tokens: the id of the stream.
    aud: str
    events_supported: Sequence[str]
    events_requested: Sequence[str]
    events_delivered: Sequence[str]
    delivery: StreamDelivery
    #: In seconds.
    min_verification_interval: int


@final
class Stream(_Stream, total=False):
    description: str
    #: The endpoint of a push stream: its deliveries, attempts and dead letters are the stream's.
    endpoint_id: str


class _StreamChange(TypedDict):
    stream_id: str


class StreamChange(_StreamChange, total=False):
    events_requested: Sequence[str]
    delivery: NewStreamDelivery
    description: str
    iss: str
    aud: str
    events_supported: Sequence[str]
    events_delivered: Sequence[str]
    #: 0 to 2,147,483,647.
    min_verification_interval: int
    endpoint_id: str


class StreamDelivery(TypedDict):
    method: Literal["urn:ietf:rfc:8935", "urn:ietf:rfc:8936"]
    endpoint_url: str


class _NewStreamDelivery(TypedDict):
    #: Push (RFC 8935) or poll (RFC 8936).
    method: Literal["urn:ietf:rfc:8935", "urn:ietf:rfc:8936"]


class NewStreamDelivery(_NewStreamDelivery, total=False):
    #: Where tokens are pushed. The service sets it for polling.
    endpoint_url: str
    #: Sent with every push. Never shown. Absent in a change to keep it, `null` to remove it.
    authorization_header: Optional[str]


class NewStream(TypedDict, total=False):
    events_requested: Sequence[str]
    delivery: NewStreamDelivery
    description: str


StreamOrStreams = Union["Stream", Sequence["Stream"]]


class _StreamStatus(TypedDict):
    stream_id: str
    status: Literal["enabled", "paused", "disabled"]


class StreamStatus(_StreamStatus, total=False):
    reason: str


class _StreamStatusChange(TypedDict):
    stream_id: str
    status: Literal["enabled", "paused", "disabled"]


class StreamStatusChange(_StreamStatusChange, total=False):
    reason: str


class _SubjectIdentifier(TypedDict):
    #: `iss_sub`, `opaque` or `jwt_id`; others match no event.
    format: str


class SubjectIdentifier(_SubjectIdentifier, total=False):
    """A subject identifier (RFC 9493)."""

    iss: str
    #: Client id of a credential, or id of a principal.
    sub: str
    #: Id of the tenant.
    id: str
    #: `jti` of a token.
    jti: str


class TestEvent(TypedDict, total=False):
    type: str
    data: Mapping[str, Any]


class _Token(TypedDict):
    access_token: str
    token_type: Literal["Bearer"]
    expires_in: int
    scope: str
    #: The same JWT as access_token.
    token: str


class Token(_Token, total=False):
    credential_rotation: CredentialRotation


class _TokenQuestion(TypedDict):
    token: str


class TokenQuestion(_TokenQuestion, total=False):
    client_id: str
    #: For `client_secret_post`; excludes other methods.
    client_secret: str
    #: For `private_key_jwt`: a JWT (RFC 7523).
    client_assertion: str
    client_assertion_type: Literal["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]
    token_type_hint: str


class _TokenRequest(TypedDict):
    grant_type: Literal["client_credentials"]


class TokenRequest(_TokenRequest, total=False):
    client_id: str
    #: For `client_secret_post`; excludes other methods.
    client_secret: str
    #: For `private_key_jwt`: a JWT (RFC 7523).
    client_assertion: str
    client_assertion_type: Literal["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]
    #: A subset of the principal's scopes, separated by spaces.
    scope: str
    #: The audience (RFC 8707).
    resource: str


class UnobservedFinding(TypedDict):
    code: str
    advice: str


class Usage(TypedDict):
    tenant_id: str
    #: UTC.
    day: str
    #: Accepted from the tenant, without events of the service.
    events: int
    #: Size of these events' data, sealed.
    bytes: int
    #: Accepted on this day.
    deliveries: int
    #: Of the deliveries accepted on this day.
    delivered: int
    dead_lettered: int
    expired: int
    cancelled: int
    #: Ended on this day.
    attempts: int
    failed_attempts: int


class UsageList(TypedDict):
    data: Sequence[Usage]


class _VerificationRequest(TypedDict):
    stream_id: str


class VerificationRequest(_VerificationRequest, total=False):
    #: Comes back in the event.
    state: str


class _Problem(TypedDict):
    #: URL of a page about the code.
    type: str
    title: str
    status: int
    #: Stable; branch on it.
    code: str
    #: For humans; may change.
    detail: str
    #: Also in the header X-Request-Id.
    request_id: str


class Problem(_Problem, total=False):
    """A problem document (RFC 9457). Some codes add members that are not listed here.."""

    #: Path of the request.
    instance: str
    #: For VALIDATION_FAILED: every invalid member, 50 at most. For INVALID_REQUEST: every invalid
    #: query parameter or header.
    errors: Sequence[Mapping[str, Any]]
    #: Only for SCOPE_VIOLATION.
    missing_permission: str
    missing_scopes: Sequence[str]
    required_scopes: Sequence[str]
    granted_scopes: Sequence[str]


class OAuthError(TypedDict):
    """An error of an OAuth endpoint (RFC 6749 section 5.2)."""

    error: str
    error_description: str
    code: str
    request_id: str
