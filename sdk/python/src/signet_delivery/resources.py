"""The resources of the API. Each method is one request, or a list of them.

Objects have the members of the HTTP API, with the same names (:mod:`signet_delivery.models`).
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, cast

from . import models
from ._transport import Instant, PagedList, QueryValue, Transport, new_key, segment

_ENDPOINTS = "/v1/webhooks/endpoints"
_EVENT_TYPES = "/v1/webhooks/event-types"
_EVENTS = "/v1/events"
_DELIVERIES = "/v1/webhooks/deliveries"
_DEAD_LETTERS = "/v1/webhooks/dlq"
_REPLAYS = "/v1/webhooks/replays"
_CREDENTIALS = "/v1/credentials"
_COMPLIANCE = "/v1/compliance"


def _metadata(metadata: Optional[Mapping[str, str]]) -> Dict[str, QueryValue]:
    return {f"metadata[{key}]": value for key, value in (metadata or {}).items()}


def _present(**members: Any) -> Dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


class _Resource:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class EndpointSecrets(_Resource):
    """The signing secrets of endpoints."""

    def list(self, endpoint_id: str) -> models.EndpointSecretVersions:
        """Lists the versions without their values."""
        return cast(models.EndpointSecretVersions, self._transport.get(_secret(endpoint_id)))

    def update(self, endpoint_id: str, change: models.SecretSettings) -> models.EndpointSecretVersions:
        """Changes the signing settings and the rotation schedule; absent members stay."""
        return cast(models.EndpointSecretVersions, self._transport.patch(_secret(endpoint_id), change))

    def rotate(
        self,
        endpoint_id: str,
        rotation: Optional[models.SecretRotation] = None,
        *,
        idempotency_key: Optional[str] = None,
    ) -> models.RotatedEndpointSecret:
        """Starts a rotation: both secrets sign until the overlap has ended. The answer shows the new one once."""
        answer = self._transport.post(
            f"{_secret(endpoint_id)}/rotate", rotation or {}, key=new_key(idempotency_key)
        )
        return cast(models.RotatedEndpointSecret, answer)

    def activate(
        self, endpoint_id: str, *, idempotency_key: Optional[str] = None
    ) -> models.EndpointSecretVersions:
        """Makes the next secret the current one before its time."""
        answer = self._transport.post(f"{_secret(endpoint_id)}/activate", key=new_key(idempotency_key))
        return cast(models.EndpointSecretVersions, answer)


def _secret(endpoint_id: str) -> str:
    return f"{_ENDPOINTS}/{segment(endpoint_id)}/secret"


class Endpoints(_Resource):
    """Webhook endpoints."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.secrets = EndpointSecrets(transport)

    def create(
        self, endpoint: models.NewEndpoint, *, idempotency_key: Optional[str] = None
    ) -> models.RegisteredEndpoint:
        """Registers an endpoint and sends it a signed ping. The answer shows its secret once."""
        answer = self._transport.post(_ENDPOINTS, endpoint, key=new_key(idempotency_key))
        return cast(models.RegisteredEndpoint, answer)

    def list(
        self,
        *,
        state: Optional[str] = None,
        health: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        limit: Optional[int] = None,
    ) -> PagedList[models.Endpoint]:
        """Lists endpoints, newest first."""
        query = {"state": state, "health": health, "limit": limit, **_metadata(metadata)}
        return PagedList(self._transport, _ENDPOINTS, query)

    def get(self, id: str) -> models.Endpoint:
        return cast(models.Endpoint, self._transport.get(f"{_ENDPOINTS}/{segment(id)}"))

    def update(self, id: str, change: models.EndpointChange) -> models.Endpoint:
        return cast(models.Endpoint, self._transport.patch(f"{_ENDPOINTS}/{segment(id)}", change))

    def delete(self, id: str) -> None:
        self._transport.delete(f"{_ENDPOINTS}/{segment(id)}")

    def verify(self, id: str) -> models.Endpoint:
        """Sends another ping to an endpoint that is still PENDING."""
        return cast(models.Endpoint, self._transport.post(f"{_ENDPOINTS}/{segment(id)}/verify"))

    def enable(self, id: str, *, idempotency_key: Optional[str] = None) -> models.Endpoint:
        """Pings a DISABLED endpoint; it is ACTIVE once it has acknowledged the ping."""
        answer = self._transport.post(f"{_ENDPOINTS}/{segment(id)}/enable", key=new_key(idempotency_key))
        return cast(models.Endpoint, answer)

    def disable(self, id: str, *, idempotency_key: Optional[str] = None) -> models.Endpoint:
        """Disables an endpoint: its events become dead letters, which can be replayed once it is enabled again."""
        answer = self._transport.post(f"{_ENDPOINTS}/{segment(id)}/disable", key=new_key(idempotency_key))
        return cast(models.Endpoint, answer)

    def test(
        self, id: str, event: Optional[models.TestEvent] = None, *, idempotency_key: Optional[str] = None
    ) -> models.Delivery:
        """Sends an event to this ACTIVE endpoint only. Returns its delivery, before the first attempt."""
        path = f"{_ENDPOINTS}/{segment(id)}/test"
        return cast(models.Delivery, self._transport.post(path, event or {}, key=new_key(idempotency_key)))

    def count_missing(self, id: str, which: models.MissedEvents) -> int:
        """Counts the events that :meth:`replay_missing` would deliver."""
        path = f"{_ENDPOINTS}/{segment(id)}/replay-missing"
        return int(self._transport.post(path, {**which, "dry_run": True}, repeatable=True)["total"])

    def replay_missing(
        self, id: str, which: models.MissedEvents, *, idempotency_key: Optional[str] = None
    ) -> models.ReplayJob:
        """Delivers missed events as a job: from before the endpoint was registered, or while it was not ACTIVE."""
        path = f"{_ENDPOINTS}/{segment(id)}/replay-missing"
        return cast(models.ReplayJob, self._transport.post(path, which, key=new_key(idempotency_key)))


class EventTypes(_Resource):
    """The catalogue of event types."""

    def create(
        self, type: models.NewEventType, *, idempotency_key: Optional[str] = None
    ) -> models.EventType:
        return cast(
            models.EventType, self._transport.post(_EVENT_TYPES, type, key=new_key(idempotency_key))
        )

    def list(
        self, *, archived: Optional[bool] = None, limit: Optional[int] = None
    ) -> PagedList[models.EventType]:
        """Lists types by name, without archived ones by default."""
        return PagedList(self._transport, _EVENT_TYPES, {"archived": archived, "limit": limit})

    def get(self, name: str) -> models.EventType:
        return cast(models.EventType, self._transport.get(f"{_EVENT_TYPES}/{segment(name)}"))

    def update(self, name: str, change: models.EventTypeChange) -> models.EventType:
        """Changes a type. A schema that differs from the current one becomes its next version."""
        return cast(models.EventType, self._transport.patch(f"{_EVENT_TYPES}/{segment(name)}", change))

    def delete(self, name: str) -> None:
        """Deletes a type; its events are then accepted unchecked."""
        self._transport.delete(f"{_EVENT_TYPES}/{segment(name)}")

    def versions(self, name: str, *, limit: Optional[int] = None) -> PagedList[models.EventTypeSchema]:
        """Lists the versions of its schema, newest first."""
        return PagedList(self._transport, f"{_EVENT_TYPES}/{segment(name)}/versions", {"limit": limit})


class Events(_Resource):
    """Events: publishing and reading back."""

    def publish(
        self, event: models.NewEvent, *, idempotency_key: Optional[str] = None
    ) -> models.AcceptedEvent:
        """Publishes one event. It is durable once this returns.

        Retries never publish it twice. Pass a key to be safe across a crash, too.
        """
        answer = self._transport.post(_EVENTS, event, key=new_key(idempotency_key))
        return cast(models.AcceptedEvent, answer)

    def publish_batch(
        self, events: Sequence[models.NewEvent], *, idempotency_key: Optional[str] = None
    ) -> List[models.BatchItem]:
        """Publishes up to 1,000 events, 4 MiB, in one request. Items are independent: check each for ``error``."""
        answer = self._transport.post(_EVENTS, {"events": list(events)}, key=new_key(idempotency_key))
        return cast(List[models.BatchItem], answer["data"])

    def list(
        self,
        *,
        id: Optional[str] = None,
        event_type: Optional[str] = None,
        from_: Optional[Instant] = None,
        to: Optional[Instant] = None,
        limit: Optional[int] = None,
    ) -> PagedList[models.StoredEvent]:
        query: Dict[str, QueryValue] = {
            "id": id,
            "event_type": event_type,
            "from": from_,
            "to": to,
            "limit": limit,
        }
        return PagedList(self._transport, _EVENTS, query)

    def get(self, id: str) -> models.StoredEvent:
        return cast(models.StoredEvent, self._transport.get(f"{_EVENTS}/{segment(id)}"))

    def erase_content(self, id: str) -> None:
        """Destroys the event's ``data`` and the receivers' answers; waiting deliveries are cancelled."""
        self._transport.delete(f"{_EVENTS}/{segment(id)}/content")


def _delivery_query(
    endpoint_id: Optional[str],
    event_id: Optional[str],
    event_type: Optional[str],
    from_: Optional[Instant],
    to: Optional[Instant],
    last_error: Optional[str],
    last_status: Optional[int],
    reason: Optional[str],
    metadata: Optional[Mapping[str, str]],
) -> Dict[str, QueryValue]:
    return {
        "endpoint_id": endpoint_id,
        "event_id": event_id,
        "event_type": event_type,
        "from": from_,
        "to": to,
        "last_error": last_error,
        "last_status": last_status,
        "reason": reason,
        **_metadata(metadata),
    }


class Deliveries(_Resource):
    """Deliveries and their attempts."""

    def list(
        self,
        *,
        endpoint_id: Optional[str] = None,
        event_id: Optional[str] = None,
        event_type: Optional[str] = None,
        state: Optional[str] = None,
        from_: Optional[Instant] = None,
        to: Optional[Instant] = None,
        last_error: Optional[str] = None,
        last_status: Optional[int] = None,
        reason: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        limit: Optional[int] = None,
    ) -> PagedList[models.Delivery]:
        """Lists deliveries, newest first."""
        query = _delivery_query(
            endpoint_id, event_id, event_type, from_, to, last_error, last_status, reason, metadata
        )
        return PagedList(self._transport, _DELIVERIES, {**query, "state": state, "limit": limit})

    def get(self, id: str) -> models.Delivery:
        return cast(models.Delivery, self._transport.get(f"{_DELIVERIES}/{segment(id)}"))

    def attempts(self, id: str) -> PagedList[models.Attempt]:
        """Lists the attempts of a delivery, oldest first."""
        return PagedList(self._transport, f"{_DELIVERIES}/{segment(id)}/attempts", {"limit": 100})

    def retry(self, id: str) -> models.Delivery:
        """Makes the next attempt now; it counts as that attempt, and later ones keep their times."""
        return self._change(id, "retry")

    def resend(self, id: str) -> models.Delivery:
        """Starts a new cycle of 17 attempts with the same ``webhook-id``.

        Not retried if its answer is lost: check the delivery's ``cycle``.
        """
        return self._change(id, "resend")

    def cancel(self, id: str) -> models.Delivery:
        """Cancels further attempts."""
        return self._change(id, "cancel")

    def _change(self, id: str, change: str) -> models.Delivery:
        return cast(models.Delivery, self._transport.post(f"{_DELIVERIES}/{segment(id)}/{change}"))

    def stats(self, *, endpoint_id: Optional[str] = None) -> List[models.DeliveryHour]:
        """Returns the last 24 hours of all endpoints or of one, oldest first; up to 30 seconds stale."""
        answer = self._transport.get("/v1/webhooks/stats", {"endpoint_id": endpoint_id})
        return cast(List[models.DeliveryHour], answer["data"])

    def usage(self, *, from_: Optional[str] = None, to: Optional[str] = None) -> List[models.Usage]:
        """Returns the usage of each UTC day that has any, oldest first. Days are ``YYYY-MM-DD``."""
        answer = self._transport.get("/v1/usage", {"from": from_, "to": to})
        return cast(List[models.Usage], answer["data"])


class DeadLetters(_Resource):
    """The dead-letter queue: deliveries that have failed 17 times, for 7 days. A dead letter's id is its delivery's."""

    def list(
        self,
        *,
        endpoint_id: Optional[str] = None,
        event_id: Optional[str] = None,
        event_type: Optional[str] = None,
        from_: Optional[Instant] = None,
        to: Optional[Instant] = None,
        last_error: Optional[str] = None,
        last_status: Optional[int] = None,
        reason: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        limit: Optional[int] = None,
    ) -> PagedList[models.DeadLetter]:
        """Lists dead letters with their events, newest first."""
        query = _delivery_query(
            endpoint_id, event_id, event_type, from_, to, last_error, last_status, reason, metadata
        )
        return PagedList(self._transport, _DEAD_LETTERS, {**query, "limit": limit})

    def export(
        self,
        *,
        endpoint_id: Optional[str] = None,
        event_id: Optional[str] = None,
        event_type: Optional[str] = None,
        from_: Optional[Instant] = None,
        to: Optional[Instant] = None,
        last_error: Optional[str] = None,
        last_status: Optional[int] = None,
        reason: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> Iterator[models.DeadLetter]:
        """Yields all matches from one streamed answer, newest first; two at once per tenant.

        An export that breaks off raises SignetTransportError: it never ends early as if it were complete.
        """
        query = _delivery_query(
            endpoint_id, event_id, event_type, from_, to, last_error, last_status, reason, metadata
        )
        return self._transport.lines(f"{_DEAD_LETTERS}/export", query, "application/x-ndjson")

    def groups(
        self, *, endpoint_id: Optional[str] = None, limit: Optional[int] = None
    ) -> PagedList[models.DeadLetterGroup]:
        """Counts the queue by endpoint, reason and class of failure."""
        query: Dict[str, QueryValue] = {"endpoint_id": endpoint_id, "limit": limit}
        return PagedList(self._transport, f"{_DEAD_LETTERS}/groups", query)

    def get(self, id: str) -> models.DeadLetter:
        return cast(models.DeadLetter, self._transport.get(f"{_DEAD_LETTERS}/{segment(id)}"))

    def replay(self, id: str) -> models.Delivery:
        """Starts a new cycle of 17 attempts with the same event id.

        Not retried if its answer is lost: check the delivery's ``cycle``.
        """
        return cast(models.Delivery, self._transport.post(f"{_DEAD_LETTERS}/{segment(id)}/replay"))

    def count_replay(self, which: models.DeadLetterReplay) -> int:
        """Counts the dead letters that :meth:`replay_all` would replay."""
        body = {**which, "dry_run": True}
        return int(self._transport.post(f"{_DEAD_LETTERS}/replay", body, repeatable=True)["total"])

    def replay_all(
        self, which: models.DeadLetterReplay, *, idempotency_key: Optional[str] = None
    ) -> models.ReplayJob:
        """Replays many as a job, by id or by filter: those now in the queue, up to 100,000 (10,000 by id)."""
        answer = self._transport.post(f"{_DEAD_LETTERS}/replay", which, key=new_key(idempotency_key))
        return cast(models.ReplayJob, answer)


class Replays(_Resource):
    """Replay jobs: many deliveries or dead letters, or the events that an endpoint missed."""

    def count(self, which: models.NewReplay) -> int:
        """Counts the deliveries that :meth:`create` would replay."""
        return int(self._transport.post(_REPLAYS, {**which, "dry_run": True}, repeatable=True)["total"])

    def create(self, which: models.NewReplay, *, idempotency_key: Optional[str] = None) -> models.ReplayJob:
        """Replays many deliveries as a job, up to 100,000; by default dead letters and retries."""
        answer = self._transport.post(_REPLAYS, which, key=new_key(idempotency_key))
        return cast(models.ReplayJob, answer)

    def list(self, *, limit: Optional[int] = None) -> PagedList[models.ReplayJob]:
        """Lists jobs, newest first."""
        return PagedList(self._transport, _REPLAYS, {"limit": limit})

    def get(self, id: str) -> models.ReplayJob:
        return cast(models.ReplayJob, self._transport.get(f"{_REPLAYS}/{segment(id)}"))

    def outcomes(self, id: str) -> models.ReplayOutcomes:
        """Counts what the replays of the job have come to since."""
        return cast(models.ReplayOutcomes, self._transport.get(f"{_REPLAYS}/{segment(id)}/outcomes"))

    def items(
        self,
        id: str,
        *,
        state: Optional[str] = None,
        outcome: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> PagedList[models.ReplayItem]:
        """Lists the items with their results."""
        query: Dict[str, QueryValue] = {"state": state, "outcome": outcome, "limit": limit}
        return PagedList(self._transport, f"{_REPLAYS}/{segment(id)}/items", query)

    def pause(self, id: str) -> models.ReplayJob:
        return self._change(id, "pause")

    def resume(self, id: str) -> models.ReplayJob:
        return self._change(id, "resume")

    def cancel(self, id: str) -> models.ReplayJob:
        """Cancels the job. Replayed items stay replayed; the rest stays as it is."""
        return self._change(id, "cancel")

    def _change(self, id: str, change: str) -> models.ReplayJob:
        path = f"{_REPLAYS}/{segment(id)}/{change}"
        return cast(models.ReplayJob, self._transport.post(path, repeatable=True))


class Credentials(_Resource):
    """The tenant's own credentials."""

    def create(
        self,
        credential: Optional[models.NewCredential] = None,
        *,
        idempotency_key: Optional[str] = None,
    ) -> models.CreatedCredential:
        """Creates a credential, or replaces one. The answer shows its secret once."""
        answer = self._transport.post(_CREDENTIALS, credential or {}, key=new_key(idempotency_key))
        return cast(models.CreatedCredential, answer)

    def list(self, *, limit: Optional[int] = None) -> PagedList[models.Credential]:
        return PagedList(self._transport, _CREDENTIALS, {"limit": limit})

    def get(self, id: str) -> models.CredentialDetails:
        return cast(models.CredentialDetails, self._transport.get(f"{_CREDENTIALS}/{segment(id)}"))

    def revoke(self, id: str, *, reason: Optional[str] = None) -> models.Revocation:
        """Ends a credential and all its tokens permanently, everywhere. Needs ``credentials:revoke``.

        :param reason: goes into the compliance log, so no personal data
        """
        path = f"{_CREDENTIALS}/{segment(id)}/revoke"
        return cast(models.Revocation, self._transport.post(path, _present(reason=reason), repeatable=True))

    def revoke_leaked(
        self, target: str, *, reason: Optional[str] = None, idempotency_key: Optional[str] = None
    ) -> models.LeakRevocation:
        """Finds and revokes what leaked: a client id, a secret, a whole token, a certificate's SHA-256."""
        body = _present(target=target, reason=reason)
        answer = self._transport.post("/v1/revocations", body, key=new_key(idempotency_key))
        return cast(models.LeakRevocation, answer)

    def create_signing_secret(
        self, id: str, *, overlap_seconds: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> models.CreatedSigningSecret:
        """Creates the credential's signing secret, or its next version."""
        body = _present(overlap_seconds=overlap_seconds)
        answer = self._transport.post(_signing(id), body, key=new_key(idempotency_key))
        return cast(models.CreatedSigningSecret, answer)

    def signing_secrets(self, id: str) -> List[models.SigningSecret]:
        """Lists the versions of the signing secret, newest first."""
        return cast(List[models.SigningSecret], self._transport.get(_signing(id))["data"])

    def revoke_signing_secrets(
        self, id: str, *, version: Optional[int] = None, reason: Optional[str] = None
    ) -> List[models.SigningSecret]:
        """Ends one version or all at once and erases them. Needs ``credentials:revoke``."""
        body = _present(version=version, reason=reason)
        answer = self._transport.post(f"{_signing(id)}/revoke", body, repeatable=True)
        return cast(List[models.SigningSecret], answer["data"])

    def require_signature(self, id: str, required: bool) -> models.Credential:
        """Sets whether the credential must sign what it publishes."""
        body = {"signature_required": required}
        return cast(models.Credential, self._transport.patch(f"{_CREDENTIALS}/{segment(id)}", body))


def _signing(id: str) -> str:
    return f"{_CREDENTIALS}/{segment(id)}/signing-secret"


class Compliance(_Resource):
    """The tenant's entries of the compliance log."""

    def list(
        self,
        *,
        type: Optional[str] = None,
        from_: Optional[Instant] = None,
        to: Optional[Instant] = None,
        limit: Optional[int] = None,
    ) -> PagedList[models.ComplianceEntry]:
        """Lists entries, newest first."""
        query: Dict[str, QueryValue] = {"type": type, "from": from_, "to": to, "limit": limit}
        return PagedList(self._transport, f"{_COMPLIANCE}/entries", query)

    def get(self, index: int) -> models.ComplianceEntryWithBytes:
        return cast(
            models.ComplianceEntryWithBytes, self._transport.get(f"{_COMPLIANCE}/entries/{int(index)}")
        )

    def checkpoint(self) -> models.ComplianceCheckpoint:
        """Returns the newest checkpoint."""
        return cast(models.ComplianceCheckpoint, self._transport.get(f"{_COMPLIANCE}/checkpoint"))


class Portal(_Resource):
    """The tenant's portal: sign-in links."""

    def create_link(
        self, link: Optional[models.NewPortalLink] = None, *, idempotency_key: Optional[str] = None
    ) -> models.PortalLink:
        """Creates a one-time link that signs a browser in; needs the scope ``portal:sign_in``."""
        answer = self._transport.post("/v1/portal/links", link or {}, key=new_key(idempotency_key))
        return cast(models.PortalLink, answer)
