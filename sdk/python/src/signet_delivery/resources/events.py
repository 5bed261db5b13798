"""Events and the catalogue of their types."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, cast

from .. import models
from .._transport import Instant, PagedList, QueryValue, new_key, segment
from .resource import Resource

_EVENT_TYPES = "/v1/webhooks/event-types"
_EVENTS = "/v1/events"


class EventTypes(Resource):
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


class Events(Resource):
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
