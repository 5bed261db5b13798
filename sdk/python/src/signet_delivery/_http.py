"""HTTP exchanges on kept connections. Each has one deadline, and its answer a maximum size."""

from __future__ import annotations

import io
import os
import re
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Dict, Generator, Iterator, List, Mapping, Optional, Sequence, Tuple, cast
from urllib.parse import urlsplit

from ._json import loads
from ._runtime import Runtime, retry_after
from ._version import __version__
from .errors import SignetApiError, SignetTransportError

_USER_AGENT = f"signet-delivery-python/{__version__}"
_CHUNK = 65_536
# Above any page of a list: 100 events of 256 KiB, escaped.
_MAX_ANSWER_BYTES = 67_108_864
_MAX_IDLE = 16
_IDLE_SECONDS = 30.0
_RELOAD_SECONDS = 30.0
_LOOPBACK = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1")


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of mutual TLS. They are read again within 30 seconds of a change, so a renewed certificate is used."""

    #: The client certificate, followed by intermediates; None, with its key, if none is required.
    cert_file: Optional[str] = None
    key_file: Optional[str] = None
    #: Root certificates for the server's certificate; the system's by default.
    ca_file: Optional[str] = None
    password: Optional[str] = field(default=None, repr=False)

    def context(self) -> ssl.SSLContext:
        """Reads the files. Raises OSError, of which ssl.SSLError is one, for files that do not fit. It names them."""
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs a cert_file")
        with _named(self.ca_file):
            context = ssl.create_default_context(cafile=self.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Python's default falls back to the common name of a certificate that names no host (RFC 9525 section 6.3).
        context.hostname_checks_common_name = False
        if self.cert_file is not None:
            with _named(self.cert_file, self.key_file):
                # Without a password, OpenSSL would ask for it on the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, self.password or "")
        return context

    def fingerprint(self) -> Tuple[object, ...]:
        """Changes with the files."""
        found: List[object] = []
        for path in (self.cert_file, self.key_file, self.ca_file):
            try:
                status = None if path is None else os.stat(path)
            except OSError:
                status = None
            found.append(status and (status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)


@contextmanager
def _named(*paths: Optional[str]) -> Iterator[None]:
    """Adds the files to an error: OpenSSL's have no path."""
    given = [path for path in paths if path is not None]
    try:
        # The missing one, of several.
        for path in given:
            open(path, "rb").close()
        yield
    except ssl.SSLError as error:
        raise ssl.SSLError(error.errno, f"{' and '.join(given)}: {error.strerror}") from None


class _TimedSocket:
    """A socket whose reads and writes all end by a deadline: the timeout of a socket restarts with each packet."""

    def __init__(self, connected: socket.socket) -> None:
        self.deadline = 0.0
        self._socket = connected

    def limit(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self._socket.settimeout(left)

    def sendall(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            self.limit()
            self._socket.sendall(data[start : start + _CHUNK])

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self, self._socket.makefile("rb", buffering=0)))

    def close(self) -> None:
        self._socket.close()

    def is_idle(self) -> bool:
        """Whether the server has neither closed it nor sent what nobody asked for."""
        try:
            self._socket.settimeout(0)
            # The plain socket's recv, because that of TLS cannot peek.
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return False


class _TimedReader(io.RawIOBase):
    def __init__(self, timed: _TimedSocket, raw: Any) -> None:
        self._timed = timed
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._timed.limit()
        return cast(Optional[int], self._raw.readinto(buffer))

    def close(self) -> None:
        self._raw.close()
        super().close()


@dataclass(frozen=True)
class Request:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Optional[bytes] = None
    #: Texts to keep out of errors if an intermediary echoes them: the secret, the token.
    confidential: Sequence[str] = ()


@dataclass
class _Kept:
    connection: HTTPConnection
    timed: _TimedSocket
    #: With the certificate that the connection presented.
    context: Optional[ssl.SSLContext]
    since: float


def read_base_url(base_url: str, allow_plain_http: bool) -> str:
    """Returns the address in the form in which two are compared. Raises ValueError for one that is not safe."""
    url = urlsplit(base_url)
    host = url.hostname or ""
    if url.scheme not in ("https", "http") or host == "":
        raise ValueError("a base URL must be an https address")
    if url.scheme == "http" and not allow_plain_http and not _LOOPBACK.fullmatch(host):
        raise ValueError(f"a secret does not travel to {host} over plain http: use https, or allow_plain_http")
    if "@" in url.netloc or url.query != "" or url.fragment != "":
        raise ValueError("a base URL holds a scheme, a host and perhaps a path, nothing else")
    return f"{url.scheme}://{url.netloc.lower()}{url.path.rstrip('/')}"


class Connections:
    """Connections to one service. Threads may share them."""

    def __init__(self, base_url: str, tls: Optional[TlsFiles], timeout: float, runtime: Runtime) -> None:
        url = urlsplit(base_url)
        self.base_url = base_url
        self._secure = url.scheme == "https"
        if tls is not None and not self._secure:
            raise ValueError("tls needs an https address")
        self._host, self._port, self._prefix = url.hostname or "", url.port, url.path
        self.origin = f"{url.scheme}://{url.netloc}"
        self.timeout = timeout
        self._runtime = runtime
        self._tls = tls or TlsFiles()
        self._lock = threading.Lock()
        self._idle: List[_Kept] = []
        self._process = os.getpid()
        self._fingerprint = self._tls.fingerprint()
        self._context = self._tls.context() if self._secure else None
        self._checked = time.monotonic()

    def close(self) -> None:
        """Closes the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for kept in idle:
            kept.connection.close()

    def exchange(self, request: Request) -> Any:
        """Sends the request and returns the parsed answer; None without a body.

        :raises SignetApiError: for any status but 2xx, also redirects, which could lead the token elsewhere
        :raises SignetTransportError: without an answer of the service
        """
        with self._failures(request):
            kept = self._connected()
            reusable = False
            try:
                response = self._send(kept, request)
                text = _read(response)
                reusable = not response.will_close
            finally:
                if reusable:
                    self._keep(kept)
                else:
                    kept.connection.close()
        if not 200 <= response.status < 300:
            raise self._api_error(response, text, request)
        if text == b"":
            return None
        return parse_json(text, self.origin)

    def lines(self, request: Request, media_type: str, maximum: int) -> Generator[bytes, None, None]:
        """Sends the request and yields the lines of its answer. Leaving the loop closes the connection.

        :raises SignetTransportError: also when the answer breaks off or is silent for too long
        """
        with self._failures(request):
            kept = self._connected()
        try:
            with self._failures(request):
                response = self._send(kept, request)
                problem = None if response.status == 200 else _read(response)
            if problem is not None:
                raise self._api_error(response, problem, request)
            framed = response.chunked or response.length is not None
            if response.headers.get_content_type() != media_type or not framed:
                # Without framing, a lost connection would look like the end.
                raise SignetTransportError("INVALID_ANSWER", f"{self.origin} did not answer with {media_type}")
            rest = b""
            while True:
                with self._failures(request, "has broken off"):
                    kept.timed.deadline = time.monotonic() + self.timeout
                    # Not readline, to which a lost connection is the end.
                    part = response.read1(_CHUNK)
                    if part == b"" and response.length:
                        raise HTTPException("the answer is incomplete")
                *lines, rest = (rest + part).split(b"\n")
                yield from lines
                if len(rest) > maximum or (part == b"" and rest != b""):
                    raise SignetTransportError("INVALID_ANSWER", f"a line has no end within {maximum} bytes")
                if part == b"":
                    return
        finally:
            kept.connection.close()

    def _connected(self) -> _Kept:
        """Returns an idle connection that the server still holds, or a new one."""
        self._reload()
        if self._process != os.getpid():
            # After a fork, the parent uses these.
            self._process = os.getpid()
            self._idle = []
        context = self._context
        deadline = time.monotonic() + self.timeout
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            if kept is None:
                break
            fresh = kept.context is context and time.monotonic() - kept.since < _IDLE_SECONDS
            if fresh and kept.timed.is_idle():
                kept.timed.deadline = deadline
                return kept
            kept.connection.close()
        connection: HTTPConnection
        if context is not None:
            connection = HTTPSConnection(self._host, self._port, timeout=self.timeout, context=context)
        else:
            connection = HTTPConnection(self._host, self._port, timeout=self.timeout)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        timed = _TimedSocket(connection.sock)
        timed.deadline = deadline
        cast(Any, connection).sock = timed
        return _Kept(connection, timed, context, time.monotonic())

    def _keep(self, kept: _Kept) -> None:
        kept.since = time.monotonic()
        with self._lock:
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(kept)
                return
        kept.connection.close()

    def _reload(self) -> None:
        """Reads changed files. Until they fit together, the earlier certificate stays in use."""
        if self._context is None or time.monotonic() - self._checked < _RELOAD_SECONDS:
            return
        self._checked = time.monotonic()
        fingerprint = self._tls.fingerprint()
        if fingerprint != self._fingerprint:
            try:
                self._context = self._tls.context()
            except OSError:
                return
            self._fingerprint = fingerprint

    def _send(self, kept: _Kept, request: Request) -> HTTPResponse:
        headers = {"accept": "application/json", "user-agent": _USER_AGENT, **request.headers}
        kept.connection.request(request.method, self._prefix + request.path, request.body, headers)
        return kept.connection.getresponse()

    @contextmanager
    def _failures(self, request: Request, what: str = "cannot be reached") -> Iterator[None]:
        try:
            yield
        except socket.timeout:
            raise SignetTransportError("TIMEOUT", f"{self.origin} has not answered in time") from None
        except (OSError, HTTPException) as error:
            # Without the cause: it may quote what an intermediary has sent.
            reason = _without(str(error) or type(error).__name__, request.confidential)
            raise SignetTransportError("CONNECTION", f"{self.origin} {what}: {reason}") from None

    def _api_error(self, response: HTTPResponse, text: bytes, request: Request) -> SignetApiError:
        problem: Dict[str, Any] = {}
        try:
            found = loads(_without(text.decode("utf-8", "replace"), request.confidential))
            problem = found if isinstance(found, dict) else {}
        except (ValueError, RecursionError):
            pass
        named = problem.get("request_id")
        return SignetApiError(
            response.status,
            problem,
            named if isinstance(named, str) else response.headers.get("x-request-id"),
            retry_after(response.headers.get("retry-after"), self._runtime.clock()),
        )


def parse_json(text: bytes, origin: str) -> Any:
    """Parses the service's JSON."""
    try:
        return loads(text)
    except (ValueError, RecursionError):
        # Without the parser's error, which quotes the text.
        raise SignetTransportError("INVALID_ANSWER", f"{origin} did not answer in JSON") from None


def _read(response: HTTPResponse) -> bytes:
    parts: List[bytes] = []
    size = 0
    while True:
        part = response.read(_CHUNK)
        if part == b"":
            break
        size += len(part)
        if size > _MAX_ANSWER_BYTES:
            raise SignetTransportError(
                "INVALID_ANSWER", f"the answer is longer than {_MAX_ANSWER_BYTES} bytes"
            )
        parts.append(part)
    if response.length:
        raise HTTPException("the answer is incomplete")
    return b"".join(parts)


def _without(text: str, confidential: Sequence[str]) -> str:
    for secret in confidential:
        text = text.replace(secret, "[removed]")
    return text
