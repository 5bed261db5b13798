"""Webhook endpoints and their signing secrets."""

from __future__ import annotations

from typing import Mapping, Optional, cast

from .. import models
from .._transport import PagedList, Transport, new_key, segment
from .resource import Resource, metadata_query

_ENDPOINTS = "/v1/webhooks/endpoints"


class EndpointSecrets(Resource):
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


class Endpoints(Resource):
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
        query = {"state": state, "health": health, "limit": limit, **metadata_query(metadata)}
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

    def grade(self, id: str, *, idempotency_key: Optional[str] = None) -> models.Grade:
        """Grades the receiver of an ACTIVE endpoint with good and bad deliveries, which takes up to two minutes."""
        answer = self._transport.post(f"{_ENDPOINTS}/{segment(id)}/grade", key=new_key(idempotency_key))
        return cast(models.Grade, answer)

    def get_grade(self, id: str, grade_id: str) -> models.Grade:
        path = f"{_ENDPOINTS}/{segment(id)}/grades/{segment(grade_id)}"
        return cast(models.Grade, self._transport.get(path))

    def list_grades(self, id: str, *, limit: Optional[int] = None) -> PagedList[models.GradeSummary]:
        """Lists the stored grades of a receiver, newest first."""
        return PagedList(self._transport, f"{_ENDPOINTS}/{segment(id)}/grades", {"limit": limit})

    def count_missing(self, id: str, which: models.MissedEvents) -> models.ReplayCount:
        """Counts the events that :meth:`replay_missing` would deliver."""
        path = f"{_ENDPOINTS}/{segment(id)}/replay-missing"
        answer = self._transport.post(path, {**which, "dry_run": True}, repeatable=True)
        return cast(models.ReplayCount, answer)

    def replay_missing(
        self, id: str, which: models.MissedEvents, *, idempotency_key: Optional[str] = None
    ) -> models.ReplayJob:
        """Delivers missed events as a job: from before the endpoint was registered, or while it was not ACTIVE."""
        path = f"{_ENDPOINTS}/{segment(id)}/replay-missing"
        return cast(models.ReplayJob, self._transport.post(path, which, key=new_key(idempotency_key)))
