"""Receives webhooks with Python's own server, verifies them and prints each event once.

    SIGNET_WEBHOOK_SECRET=whsec_… PORT=9000 python receiver.py
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from signet_delivery import Receiver, WebhookEvent

# 256 KiB of data, the envelope, and reserve.
MAX_BODY_BYTES = 524_288


def save(event: WebhookEvent) -> None:
    """Store the event here, and do the work afterwards: the service waits for 10 seconds."""
    print(event.id, event.type, event.payload["data"], flush=True)


receiver = Receiver(
    # During a rotation, both secrets: separate them by a blank.
    os.environ["SIGNET_WEBHOOK_SECRET"].split(),
    save,
    on_error=lambda error: print(f"rejected: {error}", file=sys.stderr),
)


class Hook(BaseHTTPRequestHandler):
    # Of a read, in seconds.
    timeout = 10

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.send_error(413 if length.isdecimal() else 411)
            return
        answer = receiver.receive(self.rfile.read(int(length)), self.headers)
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Hook).serve_forever()
