"""Publishes an event and prints its deliveries.

    SIGNET_URL=https://api.example.com SIGNET_CREDENTIAL_FILE=credential.json python publish.py
"""

import os
import sys

from signet_delivery import FileCredentialStore, SignetApiError, SignetClient

signet = SignetClient(
    os.environ["SIGNET_URL"],
    store=FileCredentialStore(os.environ["SIGNET_CREDENTIAL_FILE"]),
)
try:
    event = signet.events.publish({"type": "inference.completed", "data": {"run": 7}})
except SignetApiError as error:
    for problem in error.errors:
        print(f"{problem.pointer}: {problem.detail}", file=sys.stderr)
    raise SystemExit(f"{error.code}, request {error.request_id}") from None

print(event["id"])
for delivery in signet.deliveries.list(event_id=event["id"]):
    print(delivery["id"], delivery["state"])
