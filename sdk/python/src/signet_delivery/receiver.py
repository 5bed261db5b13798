"""Handles one webhook from raw bytes to an answer, for any framework."""

from __future__ import annotations

import inspect
import json
import re
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Protocol, Set, Union

from ._runtime import LOG, check_function
from .errors import VerificationError
from .verification import Headers, Secrets, VerifiedPayload, header_of, read_secrets, verify_parsed


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
        :param on_error: gets every refusal (VerificationError) and failure. Without it, the first of each kind goes to
            the logger ``signet_delivery``, which prints on standard error unless the program configures it
        :raises ValueError: for an argument that is missing or wrong: a receiver without its secret does not start
        :raises ImportError: for a public key without the package cryptography
        """
        _check(on_event, on_error, replay_store, header_brand)
        if callable(secrets):
            check_function("secrets", secrets)
        for name, number in (("remember", remember), ("tolerance", tolerance), ("future", future)):
            if not isinstance(number, (int, float)) or not number >= 0:
                raise ValueError(f"{name} is not a number of at least 0")
        self._secrets = secrets if callable(secrets) else read_secrets(secrets)
        self._on_event = on_event
        self._store = MemoryReplayStore(now=now) if replay_store is None else replay_store
        self._remember = remember
        self._tolerance = tolerance
        self._future = future
        self._brand = header_brand
        self._on_error = on_error
        self._now = now
        self._logged: Set[str] = set()
        self._lock = threading.Lock()
        self._under_way: "Dict[str, Future[None]]" = {}

    def receive(self, body: bytes, headers: Headers) -> WebhookAnswer:
        """Verifies a request, processes a new event and returns the answer. Never raises an Exception."""
        place = "check"
        try:
            verified = self._verify(body, headers)
            if not isinstance(verified, VerificationError):
                place = "process"
                return self._process(verified)
            status = 400 if verified.code in ("HEADERS_MALFORMED", "PAYLOAD_MALFORMED") else 401
            self._tell(verified, f"{status} {verified.code}")
            return _answer(status, error=verified.code)
        except Exception as error:
            self._tell(error, place=place)
            return _answer(500, error="FAILED")

    def _verify(self, body: bytes, headers: Headers) -> Union[VerifiedPayload, VerificationError]:
        """Returns a refusal apart from failures: ``on_event`` may raise a VerificationError of its own, too."""
        if not body and re.fullmatch("0*[1-9][0-9]*", header_of(headers, "content-length") or ""):
            raise RuntimeError(
                "the body was read before this receiver, and its bytes are lost:"
                " read the raw body before anything parses it"
            )
        secrets = _ran("secrets", self._secrets()) if callable(self._secrets) else self._secrets
        try:
            return verify_parsed(
                body,
                headers,
                secrets,
                now=self._now(),
                tolerance=self._tolerance,
                future=self._future,
                header_brand=self._brand,
            )
        except VerificationError as error:
            return error

    def _process(self, verified: VerifiedPayload) -> WebhookAnswer:
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
        if event.id is not None and _ran("seen", self._store.seen(event.id, self._now() + self._remember)):
            return False
        try:
            if event.type != _GRADE_TYPE or not event.from_service:
                _ran("on_event", self._on_event(event))
        except BaseException:
            if event.id is not None:
                self._store.forget(event.id)
            raise
        return True

    def _tell(self, error: Exception, refusal: Optional[str] = None, place: str = "") -> None:
        """Passes on one refusal or failure.

        :param refusal: what the sender did wrong, as in ``401 SIGNATURE_INVALID``; None if the program is at fault
        :param place: where the program failed: two functions may raise errors of the same class
        """
        if self._on_error is None:
            self._log(error, refusal, place)
            return
        try:
            self._on_error(error)
        except Exception:
            # No one else to report to, and the answer stays the same.
            pass

    def _log(self, error: Exception, refusal: Optional[str], place: str) -> None:
        kind = refusal or f"500 {place} {type(error).__name__}"
        with self._lock:
            if kind in self._logged:
                return
            self._logged.add(kind)
        more = "Others of this kind are not logged. Pass on_error to see each."
        if refusal is None:
            LOG.error("signet: a webhook failed in this receiver, which answered it with 500. %s", more, exc_info=error)
        else:
            LOG.warning("signet: a webhook was refused with %s: %s. %s", refusal, error, more)


def _ran(name: str, returned: Any) -> Any:
    """Returns what a function of the program has returned.

    :raises TypeError: if that has yet to run, because an event that nobody has processed must come again
    """
    if inspect.iscoroutine(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        if not inspect.isasyncgen(returned):
            returned.close()
        raise TypeError(f"{name} has returned a {type(returned).__name__}, but a receiver awaits nothing")
    return returned


def _check(on_event: object, on_error: object, replay_store: object, header_brand: object) -> None:
    check_function("on_event", on_event)
    if on_error is not None:
        check_function("on_error", on_error)
    for name in ("seen", "forget"):
        if replay_store is not None:
            check_function(f"replay_store.{name}", getattr(replay_store, name, None))
    if not isinstance(header_brand, str) or not re.fullmatch("[A-Za-z0-9-]+", header_brand):
        raise ValueError("header_brand is not a part of a header's name")
