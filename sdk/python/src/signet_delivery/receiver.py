"""Handles one webhook from raw bytes to an answer, for any framework."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Protocol, Union

from .errors import VerificationError
from .verification import Headers, Secrets, VerifiedPayload, verify_parsed


class ReplayStore(Protocol):
    """Remembers the ids of events, so that each is processed once. Processes that share an endpoint share a store."""

    def seen(self, id: str, until: float) -> bool:
        """Remembers an id until Unix seconds and returns whether it was known: of two calls at once, one gets False."""
        ...

    def forget(self, id: str) -> None:
        """Forgets an id whose event could not be processed, so that the next attempt is accepted."""
        ...


class MemoryReplayStore:
    """A store in the memory of one process. It drops the oldest ids first."""

    def __init__(self, max_ids: int = 100_000, now: Callable[[], float] = time.time) -> None:
        if max_ids < 1:
            raise ValueError("max_ids is positive")
        self._until: "OrderedDict[str, float]" = OrderedDict()
        self._max = max_ids
        self._now = now
        self._lock = threading.Lock()

    def seen(self, id: str, until: float) -> bool:
        with self._lock:
            if self._until.get(id, 0) > self._now():
                return True
            # To the end of the order.
            self._until.pop(id, None)
            if len(self._until) >= self._max:
                self._until.popitem(last=False)
            self._until[id] = until
            return False

    def forget(self, id: str) -> None:
        with self._lock:
            self._until.pop(id, None)


@dataclass(frozen=True)
class WebhookEvent(VerifiedPayload):
    """A verified event."""

    #: The ``type`` of the body; None without one.
    type: Optional[str]
    #: Whether the service sent it, not a publishing tenant: ``"source":"service"`` in the signed body.
    from_service: bool


@dataclass(frozen=True)
class WebhookAnswer:
    """The answer to send."""

    status: int
    #: JSON.
    body: str


_GRADE_TYPE = "signet.grade"


def _answer(status: int, **members: Any) -> WebhookAnswer:
    return WebhookAnswer(status, json.dumps(members))


class Receiver:
    """Handles webhooks from raw bytes to an answer, for any framework. Threads may share it."""

    def __init__(
        self,
        secrets: Union[Secrets, Callable[[], Secrets]],
        on_event: Callable[[WebhookEvent], object],
        *,
        replay_store: Optional[ReplayStore] = None,
        remember: float = 864_000,
        tolerance: float = 300,
        future: float = 60,
        header_brand: str = "Service",
        on_error: Optional[Callable[[Exception], object]] = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Creates a receiver.

        :param secrets: may be a function, so that a rotation needs no restart
        :param on_event: called once per event, but not for pings and grades; if it raises, the event is sent again
        :param replay_store: remembers ids; in memory by default. Several processes need a shared one
        :param remember: how long, in seconds: the 72 hours of attempts and the week of replays by default
        :param on_error: gets every rejection (VerificationError) and failure
        """
        self._secrets = secrets
        self._on_event = on_event
        self._store = MemoryReplayStore(now=now) if replay_store is None else replay_store
        self._remember = remember
        self._tolerance = tolerance
        self._future = future
        self._brand = header_brand
        self._on_error = on_error
        self._now = now
        self._lock = threading.Lock()
        self._under_way: "Dict[str, Future[None]]" = {}

    def receive(self, body: bytes, headers: Headers) -> WebhookAnswer:
        """Verifies a request, processes a new event and returns the answer. Never raises an Exception."""
        try:
            return self._process(body, headers)
        except VerificationError as error:
            self._tell(error)
            return _answer(400 if error.code in ("HEADERS_MALFORMED", "PAYLOAD_MALFORMED") else 401, error=error.code)
        except Exception as error:
            self._tell(error)
            return _answer(500, error="FAILED")

    def _process(self, body: bytes, headers: Headers) -> WebhookAnswer:
        verified = verify_parsed(
            body,
            headers,
            self._secrets() if callable(self._secrets) else self._secrets,
            now=self._now(),
            tolerance=self._tolerance,
            future=self._future,
            header_brand=self._brand,
        )
        members = verified.payload if isinstance(verified.payload, dict) else {}
        named = members.get("type")
        if named == "ping":
            data = members.get("data")
            return _answer(200, challenge=data.get("challenge") if isinstance(data, dict) else None)
        event = WebhookEvent(
            verified.id,
            verified.timestamp,
            verified.scheme,
            verified.payload,
            verified.body,
            named if isinstance(named, str) else None,
            members.get("source") == "service",
        )
        return _answer(200, processed=self._once(event))

    def _once(self, event: WebhookEvent) -> bool:
        """Processes the event; False for a duplicate."""
        if event.id is None:
            return self._take(event)
        mine: "Future[None]" = Future()
        with self._lock:
            other = self._under_way.setdefault(event.id, mine)
        if other is not mine:
            # An attempt of the same event: to answer 200 before the other has succeeded could lose the event.
            other.result()
            return False
        try:
            taken = self._take(event)
        except BaseException as error:
            mine.set_exception(error if isinstance(error, Exception) else RuntimeError("interrupted"))
            raise
        else:
            mine.set_result(None)
            return taken
        finally:
            with self._lock:
                del self._under_way[event.id]

    def _take(self, event: WebhookEvent) -> bool:
        if event.id is not None and self._store.seen(event.id, self._now() + self._remember):
            return False
        try:
            if event.type != _GRADE_TYPE or not event.from_service:
                self._on_event(event)
        except BaseException:
            if event.id is not None:
                self._store.forget(event.id)
            raise
        return True

    def _tell(self, error: Exception) -> None:
        try:
            if self._on_error is not None:
                self._on_error(error)
        except Exception:
            # No one else to report to, and the answer stays the same.
            pass
