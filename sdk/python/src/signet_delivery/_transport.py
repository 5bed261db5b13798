"""API calls: with a token, retried if that is safe. Lists, page by page."""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import chain
from typing import Any, Callable, Dict, Generator, Generic, Iterator, Mapping, Optional, Sequence, TypeVar
from typing import Union
from urllib.parse import quote, urlencode

from ._http import Connections, Request, parse_json, read_base_url
from ._json import dumps
from ._runtime import RetryPolicy, Runtime, is_rate_limited, is_repeatable, with_retries
from ._tokens import AccessToken, TokenSource
from .errors import SignetApiError, SignetTransportError

# Codes of a 401 that a new token fixes: expired, revoked, or bound to a renewed certificate.
_FRESH_TOKEN_HELPS = frozenset({"TOKEN_EXPIRED", "TOKEN_REVOKED", "CERT_BINDING_MISMATCH"})
# Above any line of the service: an event of 256 KiB with its envelope.
_MAX_LINE_BYTES = 4_194_304

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
            body = dumps(self.body, _json_default).encode()
            headers["content-type"] = "application/json"
        if self.idempotency_key is not None:
            headers["idempotency-key"] = self.idempotency_key
        path = self.path if query == "" else f"{self.path}?{query}"
        return Request(self.method, path, headers, body, [token])


class Transport:
    """Makes the calls of all resources."""

    def __init__(
        self, apis: Sequence[Connections], source: TokenSource, retry: RetryPolicy, runtime: Runtime
    ) -> None:
        """Creates a transport to the first API, and to those of other regions that it may name."""
        self._home = apis[0]
        self._apis = {api.base_url: api for api in apis}
        self._source = source
        self._retry = retry
        self._runtime = runtime
        # The region's API by kind of path, as answers 421 have named it.
        self._elsewhere: Dict[str, Connections] = {}

    def close(self) -> None:
        """Closes the idle connections."""
        for each in self._apis.values():
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
        connections = self._elsewhere.get(call.kind, self._home)
        other = None
        try:
            return self._send(call, connections, token, send)
        except SignetApiError as error:
            if error.status == 421:
                other = self._learn(call, connections, error)
            if other is not None or (error.status == 401 and error.code in _FRESH_TOKEN_HELPS):
                refused = error
            elif error.status == 404 and call.method == "DELETE" and count > 0:
                # An earlier request succeeded, but its answer was lost. A DELETE answers nothing.
                return None  # type: ignore[return-value]
            else:
                raise
        if other is not None:
            # The request was not processed, so any method may be sent again.
            return self._send(call, other, token, send)
        fresh = self._source.token_instead_of(token.value)
        if fresh.value == token.value:
            raise refused
        return self._send(call, connections, fresh, send)

    def _send(
        self, call: Call, api: Connections, token: AccessToken, send: Callable[[Connections, Request], T]
    ) -> T:
        """Sends the request. Forgets a learned API without a usable answer: the first API may name another."""
        try:
            return send(api, call.request(token.value))
        except SignetTransportError:
            if self._elsewhere.get(call.kind) is api:
                self._elsewhere.pop(call.kind, None)
            raise

    def _learn(self, call: Call, asked: Connections, error: SignetApiError) -> Optional[Connections]:
        """Keeps the API that an answer 421 names. Returns None if it was asked, or none is named.

        :raises SignetApiError: if the caller has not listed it. An answer could name any host
        """
        named = error.problem.get("base_url")
        try:
            address = read_base_url(named, allow_plain_http=True) if isinstance(named, str) else ""
        except ValueError:
            return None
        if address in ("", asked.base_url):
            return None
        api = self._apis.get(address)
        if api is None:
            advice = f"The client sends no token to {address}: add it to region_urls if it is an API of yours."
            raise SignetApiError(error.status, error.problem, error.request_id, error.retry_after, advice)
        self._elsewhere[call.kind] = api
        return api


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
