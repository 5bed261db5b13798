"""A scripted service on a real socket: a token endpoint that rotates on demand, and resources that answer as told."""

import base64
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import parse_qs, unquote_plus

CLIENT_ID = "cl_0123456789abcdefghijklmn"


def secret_of(version: int) -> str:
    """A secret in a recognizable form, with characters that Basic must encode."""
    return f"sgn:live%sk+canary{version}"


@dataclass
class Seen:
    method: str
    path: str
    headers: Dict[str, str]
    body: bytes
    peer: int


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    headers: Dict[str, str] = field(default_factory=dict)
    #: Processes the request and loses the answer.
    lost: bool = False
    #: Closes the connection after the answer, without saying so in it.
    hangs_up: bool = False
    #: Says nothing for 10 seconds.
    silent: bool = False
    #: Sends these bytes instead, one each 50 ms if slowly.
    raw: Optional[bytes] = None
    slowly: bool = False


class ScriptedService:
    """Use as a context manager. Answers of resources are taken from ``answers``, else 200 and an empty list."""

    def __init__(self) -> None:
        self.seen: List[Seen] = []
        self.answers: List[Answer] = []
        self.token_answers: List[Answer] = []
        #: Versions that authenticate, and those whose answer names a successor.
        self.valid = {1}
        self.due: "set[int]" = set()
        self.lifetime = 900
        self.hold = threading.Event()
        self.hold.set()
        self.end = threading.Event()
        self._issued = 0
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with service._lock:
                    service.seen.append(
                        Seen(self.command, self.path, headers, body, self.client_address[1])
                    )
                self._send(service._answer(self.path, headers, body))

            do_GET = do_POST = do_PATCH = do_DELETE = _handle

            def _send(self, answer: Answer) -> None:
                if answer.silent:
                    service.end.wait(10)
                if answer.lost or answer.hangs_up:
                    self.close_connection = True
                if answer.lost:
                    return
                if answer.raw is not None:
                    self.close_connection = True
                    size = 1 if answer.slowly else max(1, len(answer.raw))
                    for start in range(0, len(answer.raw), size):
                        self.wfile.write(answer.raw[start : start + size])
                        service.end.wait(0.05 if answer.slowly else 0)
                else:
                    content = b"" if answer.status == 204 else json.dumps(answer.body).encode()
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                # A client that has given up.
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "ScriptedService":
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self.end.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def token_requests(self) -> List[Seen]:
        return [each for each in self.seen if each.path == "/v1/auth/token"]

    @property
    def calls(self) -> List[Seen]:
        return [each for each in self.seen if each.path != "/v1/auth/token"]

    def _answer(self, path: str, headers: Dict[str, str], body: bytes) -> Answer:
        if path == "/v1/auth/token":
            self.hold.wait(10)
            with self._lock:
                told = self.token_answers.pop(0) if self.token_answers else None
                usual = self._token(headers, body)
            if told is not None and told.lost:
                return told
            return usual if told is None else told
        with self._lock:
            return self.answers.pop(0) if self.answers else Answer(body={"data": [], "next_cursor": None})

    def _token(self, headers: Dict[str, str], body: bytes) -> Answer:
        form = parse_qs(body.decode(), strict_parsing=True)
        pair = base64.b64decode(headers.get("authorization", "Basic ")[len("Basic ") :]).decode()
        client_id, _, secret = map(unquote_plus, pair.partition(":"))
        presented = next((version for version in self.valid if secret_of(version) == secret), None)
        if form["grant_type"] != ["client_credentials"] or client_id != CLIENT_ID or presented is None:
            return Answer(401, {"error": "invalid_client", "code": "INVALID_CLIENT", "request_id": "req_1"})
        self._issued += 1
        answer: Dict[str, Any] = {
            "access_token": f"token-{self._issued}",
            "expires_in": self.lifetime,
            "scope": form.get("scope", ["all"])[0],
        }
        if presented in self.due:
            self.valid.add(presented + 1)
            answer["credential_rotation"] = {
                "credential_id": "crd_1",
                "version": presented + 1,
                "client_secret": secret_of(presented + 1),
                "predecessor_retires_by": "2027-01-01T00:00:00.000Z",
            }
        return Answer(body=answer)


def eventually(check: Callable[[], bool], what: str) -> None:
    """Waits until the condition holds."""
    until = time.monotonic() + 10
    while not check():
        if time.monotonic() > until:
            raise AssertionError(f"in vain: {what}")
        time.sleep(0.005)
