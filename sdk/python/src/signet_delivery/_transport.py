"""API calls: with a token, retried if that is safe. Lists, page by page."""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import chain
from typing import Any, Callable, Dict, Generator, Generic, Iterator, Mapping, Optional, Sequence, TypeVar
from typing import Union
from urllib.parse import quote, urlencode

from ._http import Connections, Request, parse_json, read_base_url
from ._runtime import RetryPolicy, Runtime, is_rate_limited, is_repeatable, with_retries
from ._tokens import AccessToken, TokenSource
from .errors import SignetApiError, SignetTransportError

# Codes of a 401 that a new token fixes: expired, revoked, or bound to a renewed certificate.
_FRESH_TOKEN_HELPS = frozenset({"TOKEN_EXPIRED", "TOKEN_REVOKED", "CERT_BINDING_MISMATCH"})
# Above any line of the service: an event of 256 KiB with its envelope.
_MAX_LINE_BYTES = 4_194_304
# Of kept addresses; there are fewer kinds of paths.
_MAX_ELSEWHERE = 64

Item = TypeVar("Item")
T = TypeVar("T")
#: A time: RFC 3339, or a datetime with a time zone.
Instant = Union[str, datetime]
QueryValue = Union[str, int, bool, datetime, None]


def instant(value: datetime) -> str:
    """Returns the time in RFC 3339. Raises ValueError without a time zone."""
    if value.tzinfo is None:
        raise ValueError("a datetime needs a time zone: datetime.now(timezone.utc)")
    return value.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json_default(value: Any) -> str:
    if isinstance(value, datetime):
        return instant(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _query_text(value: Union[str, int, bool, datetime]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return instant(value) if isinstance(value, datetime) else str(value)


def segment(id: str) -> str:
    """Encodes an id as one segment of a path."""
    if id in ("", ".", ".."):
        raise ValueError("an id is not empty")
    return quote(id, safe="")


@dataclass(frozen=True)
class Call:
    """One call of the API."""

    method: str
    path: str
    query: Mapping[str, QueryValue]
    body: Any
    idempotency_key: Optional[str]
    repeatable: bool

    @property
    def kind(self) -> str:
        """The part of the path that decides which region's API serves it, for instance ``/v1/events``."""
        return "/".join(self.path.split("/", 3)[:3])

    def request(self, token: str) -> Request:
        query = urlencode({name: _query_text(value) for name, value in self.query.items() if value is not None})
        headers = {"authorization": f"Bearer {token}"}
        body = None
        if self.body is not None:
            # NaN is not JSON.
            text = json.dumps(
                self.body, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_default
            )
            body = text.encode()
            headers["content-type"] = "application/json"
        if self.idempotency_key is not None:
            headers["idempotency-key"] = self.idempotency_key
        path = self.path if query == "" else f"{self.path}?{query}"
        return Request(self.method, path, headers, body, [token])


class Transport:
    """Makes the calls of all resources."""

    def __init__(
        self, connections: Connections, source: TokenSource, retry: RetryPolicy, runtime: Runtime
    ) -> None:
        self._connections = connections
        self._source = source
        self._retry = retry
        self._runtime = runtime
        self._lock = threading.Lock()
        # APIs of other regions, by kind of path.
        self._elsewhere: Dict[str, Connections] = {}

    def close(self) -> None:
        """Closes the idle connections."""
        with self._lock:
            known = (self._connections, *self._elsewhere.values())
        for each in known:
            each.close()

    def get(self, path: str, query: Optional[Mapping[str, QueryValue]] = None) -> Any:
        return self._perform(Call("GET", path, query or {}, None, None, True), Connections.exchange)

    def post(
        self, path: str, body: Any = None, *, key: Optional[str] = None, repeatable: bool = False
    ) -> Any:
        """Sends a POST, which is retried freely with a key or if it is repeatable by nature, else after a 429."""
        call = Call("POST", path, {}, body, key, repeatable or key is not None)
        return self._perform(call, Connections.exchange)

    def patch(self, path: str, body: Any) -> Any:
        return self._perform(Call("PATCH", path, {}, body, None, False), Connections.exchange)

    def delete(self, path: str, query: Optional[Mapping[str, QueryValue]] = None) -> None:
        self._perform(Call("DELETE", path, query or {}, None, None, True), Connections.exchange)

    def lines(self, path: str, query: Mapping[str, QueryValue], media_type: str) -> Iterator[Any]:
        """Yields the parsed lines of a streamed answer. Only its beginning is retried."""

        def begin(
            connections: Connections, request: Request
        ) -> "tuple[str, Optional[bytes], Generator[bytes, None, None]]":
            headers = {**request.headers, "accept": media_type}
            streamed = Request(request.method, request.path, headers, None, request.confidential)
            lines = connections.lines(streamed, media_type, _MAX_LINE_BYTES)
            return connections.origin, next(lines, None), lines

        origin, first, rest = self._perform(Call("GET", path, query, None, None, True), begin)
        with closing(rest):
            for line in chain(() if first is None else (first,), rest):
                yield parse_json(line, origin)

    def _perform(self, call: Call, send: Callable[[Connections, Request], T]) -> T:
        repeat = is_repeatable if call.repeatable else is_rate_limited
        sent = False

        def attempt(count: int) -> T:
            nonlocal sent
            sent = False
            token = self._source.token()
            sent = True
            return self._attempt(call, token, count, send)

        # The source has already retried its own requests.
        return with_retries(attempt, self._runtime, self._retry, lambda error: sent and repeat(error))

    def _attempt(
        self, call: Call, token: AccessToken, count: int, send: Callable[[Connections, Request], T]
    ) -> T:
        connections = self._elsewhere.get(call.kind, self._connections)
        other = None
        try:
            return send(connections, call.request(token.value))
        except SignetApiError as error:
            if error.status == 421:
                other = self._learn(call, connections, error.problem.get("base_url"))
            if other is not None or (error.status == 401 and error.code in _FRESH_TOKEN_HELPS):
                refused = error
            elif error.status == 404 and call.method == "DELETE" and count > 0:
                # An earlier request succeeded, but its answer was lost. A DELETE answers nothing.
                return None  # type: ignore[return-value]
            else:
                raise
        if other is not None:
            # The request was not processed, so any method may be sent again.
            return send(other, call.request(token.value))
        fresh = self._source.token_instead_of(token.value)
        if fresh.value == token.value:
            raise refused
        return send(connections, call.request(fresh.value))

    def _learn(self, call: Call, asked: Connections, named: Any) -> Optional[Connections]:
        """Keeps the API that an answer 421 names. Returns None if it was asked, or the way there is less protected."""
        if not isinstance(named, str):
            return None
        with self._lock:
            try:
                address = read_base_url(named, allow_plain_http=True)
                known = (self._connections, *self._elsewhere.values())
                same = next((each for each in known if each.base_url == address), None)
                other = same or self._connections.elsewhere(address)
            except (ValueError, OSError):
                return None
            if other is asked or len(self._elsewhere) >= _MAX_ELSEWHERE:
                return None
            self._elsewhere[call.kind] = other
            return other


def new_key(key: Optional[str]) -> str:
    """Returns the caller's key, or a new one; all retries of the call use it."""
    return str(uuid.uuid4()) if key is None else key


@dataclass(frozen=True)
class Page(Generic[Item]):
    """One page of a list."""

    data: Sequence[Item]
    #: Cursor of the next page; None on the last one.
    next_cursor: Optional[str]


class PagedList(Generic[Item]):
    """A list: a ``for`` loop reads pages as needed, :meth:`page` reads one."""

    def __init__(self, transport: Transport, path: str, query: Mapping[str, QueryValue]) -> None:
        self._transport = transport
        self._path = path
        self._query = dict(query)

    def page(self, cursor: Optional[str] = None) -> Page[Item]:
        """Returns the page at the cursor, or the first one."""
        query: Dict[str, QueryValue] = dict(self._query)
        if cursor is not None:
            query["cursor"] = cursor
        answer = self._transport.get(self._path, query)
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list):
            raise SignetTransportError("INVALID_ANSWER", "the answer is not a page of a list")
        return Page(data, answer.get("next_cursor"))

    def __iter__(self) -> Iterator[Item]:
        page = self.page()
        while True:
            yield from page.data
            if page.next_cursor is None:
                return
            page = self.page(page.next_cursor)
