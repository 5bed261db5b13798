"""A shop: it publishes an event for each order, and sends a receipt for each order.paid that it receives."""

# region setup
import asyncio
import json
import os
import sqlite3
import sys
import time
import uuid
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, Request, Response
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

MAX_BYTES = 524_288
IDLE_SECONDS = 0.5

# Events may have integers of any length, and Python refuses more than 4,300 digits.
sys.set_int_max_str_digits(MAX_BYTES)

webhook = Webhook(os.environ["WEBHOOK_SECRET"])


def query(sql, *values):
    """Runs one statement in its own transaction. It returns when the change is on disk."""
    connection = sqlite3.connect(os.environ.get("DATABASE", "shop.db"), timeout=10)
    try:
        with connection:
            return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


query("CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, event TEXT NOT NULL, due REAL NOT NULL, done REAL)")
# endregion


# region signet
class Signet:
    """Calls the API with a token, which it renews a minute before it expires."""

    def __init__(self):
        self._http = httpx.AsyncClient(base_url=os.environ["SIGNET_URL"], timeout=10)
        self._token = ""
        self._renew_at = 0.0

    async def _bearer(self):
        if time.monotonic() >= self._renew_at:
            answer = await self._http.post(
                "/v1/auth/token",
                data={
                    "grant_type": "client_credentials",
                    "client_id": os.environ["SIGNET_CLIENT_ID"],
                    "client_secret": os.environ["SIGNET_CLIENT_SECRET"],
                },
            )
            answer.raise_for_status()
            self._token = answer.json()["access_token"]
            self._renew_at = time.monotonic() + answer.json()["expires_in"] - 60
        return {"Authorization": f"Bearer {self._token}"}

    async def call(self, method, path, body=None):
        """Returns the answer. Raises HTTPStatusError for an error."""
        answer = await self._http.request(method, path, json=body, headers=await self._bearer())
        answer.raise_for_status()
        return answer.json()


signet = Signet()
# endregion


# region handle
async def handle(event):
    data = event["data"]
    if event["type"] == "order.paid":
        print(f"receipt for order {data['order']}", flush=True)
    elif event["type"] == "delivery.dead_lettered" and event.get("source") == "service":
        for delivery_id in data["delivery_ids"]:
            await replay_once(delivery_id)


async def replay_once(delivery_id):
    """Replays a dead letter once. If it fails again, a person has to look at its receiver."""
    path = f"/v1/webhooks/dlq/{delivery_id}"
    try:
        letter = await signet.call("GET", path)
        if letter["cycle"] > 1 or letter["reason"] != "attempts_exhausted":
            print(f"dead letter {delivery_id} of {letter['endpoint_id']}: {letter['last_error']}", flush=True)
            return
        await signet.call("POST", f"{path}/replay")
        print(f"replayed {delivery_id}", flush=True)
    except httpx.HTTPStatusError as error:
        # It is no longer a dead letter: somebody was faster, or its week has ended.
        if error.response.status_code not in (404, 409, 410):
            raise


async def work():
    """Handles stored events until the process ends. Run one process, or one worker beside several."""
    while True:
        sql = "SELECT id, event FROM inbox WHERE done IS NULL AND due <= ? ORDER BY due LIMIT 1"
        rows = await asyncio.to_thread(query, sql, time.time())
        for event_id, event in rows:
            try:
                await handle(json.loads(event))
                await asyncio.to_thread(query, "UPDATE inbox SET done = ? WHERE id = ?", time.time(), event_id)
            except Exception as error:
                print(f"{event_id} is handled again in a minute: {error!r}", flush=True)
                await asyncio.to_thread(query, "UPDATE inbox SET due = ? WHERE id = ?", time.time() + 60, event_id)
        if not rows:
            await asyncio.sleep(IDLE_SECONDS)
# endregion


# region app
@asynccontextmanager
async def lifespan(_app):
    task = asyncio.create_task(work())
    yield
    task.cancel()


app = FastAPI(lifespan=lifespan)


async def raw_body(request):
    """Returns the bytes that the signature covers; None if there are too many."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            return None
    return bytes(body)


@app.post("/hook")
async def hook(request: Request):
    body = await raw_body(request)
    if body is None:
        return Response(status_code=413)
    try:
        event = webhook.verify(body, dict(request.headers))
    except (WebhookVerificationError, ValueError):
        return Response(status_code=401)
    if event["type"] == "ping":
        return {"challenge": event["data"]["challenge"]}
    # A repeated delivery has the same id and changes nothing.
    sql = "INSERT INTO inbox (id, event, due) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    await asyncio.to_thread(query, sql, request.headers["webhook-id"], body.decode(), time.time())
    return {}


@app.post("/orders", status_code=201)
async def orders(order: dict):
    order_id = str(uuid.uuid4())
    data = {"order": order_id, "item": order.get("item")}
    # Repeating it with the same id within a day publishes nothing more.
    event = await signet.call("POST", "/v1/events", {"id": order_id, "type": "order.paid", "data": data})
    return {"order": order_id, "event": event["id"]}
# endregion
