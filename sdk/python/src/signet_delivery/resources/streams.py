"""Streams of security events (OpenID Shared Signals Framework 1.0)."""

from __future__ import annotations

from typing import List, Optional, cast

from .. import models
from .._transport import new_key, segment
from .resource import Resource, present

_STREAMS = "/v1/ssf/streams"
_STATUS = "/v1/ssf/status"


class Streams(Resource):
    """Streams that tell receivers of revocations and changed credentials."""

    def create(
        self, stream: Optional[models.NewStream] = None, *, idempotency_key: Optional[str] = None
    ) -> models.Stream:
        """Creates a stream: a push stream with ``delivery``, otherwise one for :meth:`poll`."""
        answer = self._transport.post(_STREAMS, stream or {}, key=new_key(idempotency_key))
        return cast(models.Stream, answer)

    def list(self) -> List[models.Stream]:
        """Lists all streams of the tenant, oldest first. There are at most 10."""
        return cast(List[models.Stream], self._transport.get(_STREAMS))

    def get(self, id: str) -> models.Stream:
        return cast(models.Stream, self._transport.get(_STREAMS, {"stream_id": id}))

    def update(self, id: str, change: models.NewStream) -> models.Stream:
        """Changes a stream; absent members stay. The delivery method cannot change."""
        return cast(models.Stream, self._transport.patch(_STREAMS, {**change, "stream_id": id}))

    def delete(self, id: str) -> None:
        """Deletes a stream with its waiting tokens."""
        self._transport.delete(_STREAMS, {"stream_id": id})

    def status(self, id: str) -> models.StreamStatus:
        return cast(models.StreamStatus, self._transport.get(_STATUS, {"stream_id": id}))

    def set_status(
        self, id: str, status: str, *, reason: Optional[str] = None, idempotency_key: Optional[str] = None
    ) -> models.StreamStatus:
        """Sets ``enabled``, ``paused`` or ``disabled``. Enabling sends what a paused stream held."""
        body = present(stream_id=id, status=status, reason=reason)
        answer = self._transport.post(_STATUS, body, key=new_key(idempotency_key))
        return cast(models.StreamStatus, answer)

    def remove_subject(
        self, id: str, subject: models.SubjectIdentifier, *, idempotency_key: Optional[str] = None
    ) -> None:
        """Removes a subject: its events are no longer sent. A principal includes its credentials."""
        body = {"stream_id": id, "subject": subject}
        self._transport.post("/v1/ssf/subjects/remove", body, key=new_key(idempotency_key))

    def add_subject(
        self, id: str, subject: models.SubjectIdentifier, *, idempotency_key: Optional[str] = None
    ) -> None:
        """Adds a removed subject again."""
        body = {"stream_id": id, "subject": subject}
        self._transport.post("/v1/ssf/subjects/add", body, key=new_key(idempotency_key))

    def verify(
        self, id: str, *, state: Optional[str] = None, idempotency_key: Optional[str] = None
    ) -> None:
        """Sends a verification event, which contains ``state``. Once in 30 seconds."""
        body = present(stream_id=id, state=state)
        self._transport.post("/v1/ssf/verify", body, key=new_key(idempotency_key))

    def poll(self, id: str, request: Optional[models.PollRequest] = None) -> models.PollAnswer:
        """Acknowledges tokens, then returns the oldest of the others.

        Without any, it waits for up to 20 seconds: a client with a shorter timeout needs
        ``returnImmediately``.
        """
        answer = self._transport.post(f"/v1/ssf/poll/{segment(id)}", request or {}, repeatable=True)
        return cast(models.PollAnswer, answer)
