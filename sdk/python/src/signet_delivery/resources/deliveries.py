"""Deliveries, dead letters and replays."""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, Optional, cast

from .. import models
from .._transport import Instant, PagedList, QueryValue, new_key, segment
from .resource import Resource, metadata_query

_DELIVERIES = "/v1/webhooks/deliveries"
_DEAD_LETTERS = "/v1/webhooks/dlq"
_REPLAYS = "/v1/webhooks/replays"


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
        **metadata_query(metadata),
    }


class Deliveries(Resource):
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


class DeadLetters(Resource):
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

    def summary(self, *, endpoint_id: Optional[str] = None) -> models.DeadLetterSummary:
        """Reads how long the queue is, and how old; of all endpoints, or of one."""
        query: Dict[str, QueryValue] = {"endpoint_id": endpoint_id}
        return cast(models.DeadLetterSummary, self._transport.get(f"{_DEAD_LETTERS}/summary", query))

    def get(self, id: str) -> models.DeadLetter:
        return cast(models.DeadLetter, self._transport.get(f"{_DEAD_LETTERS}/{segment(id)}"))

    def replay(self, id: str) -> models.Delivery:
        """Starts a new cycle of 17 attempts with the same event id.

        Not retried if its answer is lost: check the delivery's ``cycle``.
        """
        return cast(models.Delivery, self._transport.post(f"{_DEAD_LETTERS}/{segment(id)}/replay"))

    def count_replay(self, which: models.DeadLetterReplay) -> models.ReplayCount:
        """Counts the dead letters that :meth:`replay_all` would replay, and those of them that would fail now."""
        answer = self._transport.post(f"{_DEAD_LETTERS}/replay", {**which, "dry_run": True}, repeatable=True)
        return cast(models.ReplayCount, answer)

    def replay_all(
        self, which: models.DeadLetterReplay, *, idempotency_key: Optional[str] = None
    ) -> models.ReplayJob:
        """Replays many as a job, by id or by filter: those now in the queue, at most 10,000 by id."""
        answer = self._transport.post(f"{_DEAD_LETTERS}/replay", which, key=new_key(idempotency_key))
        return cast(models.ReplayJob, answer)


class Replays(Resource):
    """Replay jobs: many deliveries or dead letters, or the events that an endpoint missed."""

    def count(self, which: models.NewReplay) -> models.ReplayCount:
        """Counts the deliveries that :meth:`create` would replay, and those of them that would fail now."""
        answer = self._transport.post(_REPLAYS, {**which, "dry_run": True}, repeatable=True)
        return cast(models.ReplayCount, answer)

    def create(self, which: models.NewReplay, *, idempotency_key: Optional[str] = None) -> models.ReplayJob:
        """Replays many deliveries as a job; by default dead letters and retries."""
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
