"""Sends deliveries through each framework, with the code of the README where it has some, and prints the answers."""

import asyncio
import base64
import io
import json
import os
import pathlib
import re
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import django
import fastapi
import fastapi.concurrency
import fastapi.testclient
import flask
import functions_framework
import mangum
from django.conf import settings
from django.http import HttpResponse
from django.test import RequestFactory
from django.views.decorators.csrf import csrf_exempt
from signet_delivery import Receiver, sign_delivery

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", pathlib.Path(os.environ["README"]).read_text(), re.M | re.S)
Send = Callable[[bytes, Dict[str, str]], Tuple[int, str]]


def receiver() -> Receiver:
    # As read from a file.
    return Receiver(SECRET + "\n", lambda event: None, on_error=lambda error: None)


def documented(sign: str, **names: Any) -> Dict[str, Any]:
    """Runs the block of the README that has this text, with these names, and returns what it defines."""
    [block] = [each for each in BLOCKS if sign in each]
    space = {"receiver": receiver(), **names}
    exec(block, space)
    return space


def in_flask() -> Send:
    app = flask.Flask("hooks")
    documented('@app.post("/hook")\ndef', app=app, request=flask.request)
    client = app.test_client()

    def send(body: bytes, headers: Dict[str, str]) -> Tuple[int, str]:
        answer = client.post("/hook", data=body, headers=headers, content_type="application/json")
        return answer.status_code, answer.text

    return send


def fastapi_app() -> fastapi.FastAPI:
    app = fastapi.FastAPI()
    names = {"Request": fastapi.Request, "Response": fastapi.Response}
    documented("await run_in_threadpool", app=app, run_in_threadpool=fastapi.concurrency.run_in_threadpool, **names)
    return app


def in_fastapi() -> Send:
    client = fastapi.testclient.TestClient(fastapi_app())

    def send(body: bytes, headers: Dict[str, str]) -> Tuple[int, str]:
        answer = client.post("/hook", content=body, headers=headers)
        return answer.status_code, answer.text

    return send


def in_django() -> Send:
    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"])
        django.setup()
    view = documented("@csrf_exempt", csrf_exempt=csrf_exempt, HttpResponse=HttpResponse)["hook"]

    def send(body: bytes, headers: Dict[str, str]) -> Tuple[int, str]:
        answer = view(RequestFactory().post("/hook", body, content_type="application/json", headers=headers))
        return answer.status_code, answer.content.decode()

    return send


def event(body: bytes, headers: Dict[str, str], encoded: bool) -> Dict[str, Any]:
    """A request as API Gateway (version 2) and function URLs of AWS pass it."""
    http = {"method": "POST", "path": "/hook", "sourceIp": "192.0.2.1", "protocol": "HTTP/1.1"}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/hook",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **{name.lower(): value for name, value in headers.items()}},
        "requestContext": {"http": http, "stage": "$default"},
        "body": base64.b64encode(body).decode() if encoded else body.decode(),
        "isBase64Encoded": encoded,
    }


def in_lambda(encoded: bool) -> Callable[[], Send]:
    def start() -> Send:
        handler = documented("def handler(event, context)", base64=base64)["handler"]

        def send(body: bytes, headers: Dict[str, str]) -> Tuple[int, str]:
            answer = handler(event(body, headers, encoded), None)
            return answer["statusCode"], answer["body"]

        return send

    return start


def in_mangum() -> Send:
    handler = mangum.Mangum(fastapi_app(), lifespan="off")

    def send(body: bytes, headers: Dict[str, str]) -> Tuple[int, str]:
        answer: Any = handler(event(body, headers, True), None)  # type: ignore[arg-type]
        return answer["statusCode"], answer["body"]

    return send


def in_google() -> Send:
    sign = "@functions_framework.http"
    [block] = [each for each in BLOCKS if sign in each]
    with tempfile.TemporaryDirectory() as directory:
        source = pathlib.Path(directory, "main.py")
        start = f"import functions_framework\nfrom signet_delivery import Receiver\nreceiver = Receiver({SECRET!r}, lambda event: None, on_error=lambda error: None)\n"
        source.write_text(start + block)
        client = functions_framework.create_app("hook", str(source)).test_client()

    def send(body: bytes, headers: Dict[str, str]) -> Tuple[int, str]:
        answer = client.post("/", data=body, headers=headers, content_type="application/json")
        return answer.status_code, answer.text

    return send


def in_wsgi() -> Send:
    ready = receiver()

    def app(environ: Dict[str, Any], start_response: Callable[..., Any]) -> List[bytes]:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        answer = ready.receive(body, environ)
        start_response(f"{answer.status} X", [("content-type", "application/json")])
        return [answer.body.encode()]

    def send(body: bytes, headers: Dict[str, str]) -> Tuple[int, str]:
        environ = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
        statuses: List[str] = []
        given = {"wsgi.version": (1, 0), "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        text = app({**environ, **given}, lambda status, _headers: statuses.append(status))
        return int(statuses[0].split()[0]), b"".join(text).decode()

    return send


def in_asgi() -> Send:
    ready = receiver()

    async def app(scope: Dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        body = (await receive())["body"]
        answer = await asyncio.to_thread(ready.receive, body, scope["headers"])
        await send({"type": "http.response.start", "status": answer.status, "headers": []})
        await send({"type": "http.response.body", "body": answer.body.encode()})

    def post(body: bytes, headers: Dict[str, str]) -> Tuple[int, str]:
        sent: List[Dict[str, Any]] = []

        async def receive() -> Dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Dict[str, Any]) -> None:
            sent.append(message)

        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        asyncio.run(app({"type": "http", "headers": pairs}, receive, send))
        return sent[0]["status"], sent[1]["body"].decode()

    return post


def answers(send: Send) -> List[Any]:
    """A delivery, its repetition, a ping, a delivery that was changed, and one that was not signed."""
    now = int(time.time())

    def signed(id: str, type: str, data: Dict[str, Any]) -> Tuple[bytes, Dict[str, str]]:
        body = json.dumps({"id": id, "type": type, "sent_at": now, "data": data}).encode()
        return body, sign_delivery(SECRET, body, id=id, timestamp=now)

    delivery = signed("evt_1", "a.b", {"text": "ü"})
    changed, headers = signed("evt_3", "a.b", {"amount": 1})
    requests: List[Tuple[bytes, Optional[Dict[str, str]]]] = [
        delivery,
        delivery,
        signed("evt_2", "ping", {"challenge": "c1"}),
        (changed.replace(b'"amount": 1', b'"amount": 2'), headers),
        (changed, None),
    ]
    found = [send(body, given or {}) for body, given in requests]
    return [[status, json.loads(text)] for status, text in found]


FRAMEWORKS: Dict[str, Callable[[], Send]] = {
    "Flask": in_flask,
    "FastAPI": in_fastapi,
    "Django": in_django,
    "AWS Lambda": in_lambda(False),
    "AWS Lambda, base64": in_lambda(True),
    "Mangum": in_mangum,
    "Google Cloud Functions": in_google,
    "WSGI": in_wsgi,
    "ASGI": in_asgi,
}
json.dump({name: answers(start()) for name, start in FRAMEWORKS.items()}, sys.stdout)
