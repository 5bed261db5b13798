"""Calls every method of the Python client on a running service, and prints which it has not called."""

import atexit
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone

from signet_delivery import RetryPolicy, SignetApiError, SignetClient
from signet_delivery.resources.resource import Resource

URL, EXAMPLES, PORT = os.environ["SIGNET_URL"], os.environ["EXAMPLES"], os.environ["PORT"]
CLIENT_ID, CLIENT_SECRET = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]

signal.signal(signal.SIGALRM, lambda *_: sys.exit("in vain: the whole program"))
signal.alarm(240)
uncalled = set()


def note(kind):
    """Records calls of a resource's methods."""
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            label = f"{kind.__name__}.{name}"
            uncalled.add(label)

            def noted(*args, _method=method, _label=label, **named):
                uncalled.discard(_label)
                return _method(*args, **named)

            setattr(kind, name, noted)


def until(check, what):
    """Waits for a condition and returns what it returned."""
    end = time.monotonic() + 50
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"in vain: {what}")


def refused(code, call):
    """Expects a typed error and returns it."""
    try:
        call()
    except SignetApiError as error:
        assert error.code == code, error
        assert error.request_id.startswith("req_"), error
        return error
    raise SystemExit(f"not refused: {code}")


def start_receiver(secret):
    """Starts the example, and waits until it listens. It ends with this program at the latest."""
    receiver = subprocess.Popen(
        [sys.executable, "-u", os.path.join(EXAMPLES, "receiver.py")],
        env={**os.environ, "SIGNET_WEBHOOK_SECRET": secret, "PORT": PORT},
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(receiver.kill)

    def listens():
        try:
            socket.create_connection(("127.0.0.1", int(PORT))).close()
            return True
        except ConnectionRefusedError:
            return False

    until(listens, "the receiver")
    return receiver


signet = SignetClient(URL, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
for member in (*vars(signet).values(), signet.endpoints.secrets):
    if isinstance(member, Resource):
        note(type(member))
endpoints, events, deliveries, letters = (
    signet.endpoints,
    signet.events,
    signet.deliveries,
    signet.dead_letters,
)


def until_active(endpoint_id):
    # Nobody answered the first ping, and the next one may succeed before this one.
    try:
        endpoints.verify(endpoint_id)
    except SignetApiError as error:
        assert error.code == "INVALID_STATE", error
    until(lambda: endpoints.get(endpoint_id)["state"] == "ACTIVE", "an active endpoint")


def delivery_of(event_id, wanted):
    found = deliveries.list(event_id=event_id, state=wanted)
    return until(lambda: next(iter(found), None), f"a delivery that is {wanted}")


def receive():
    """An endpoint, its receiver, and an event from the example that publishes."""
    endpoint = endpoints.create(
        {"url": f"http://127.0.0.1:{PORT}/hook", "events": ["inference.completed"], "metadata": {"team": "a"}}
    )
    assert endpoint["state"] == "PENDING"
    receiver = start_receiver(endpoint["secret"])
    until_active(endpoint["id"])
    command = [sys.executable, os.path.join(EXAMPLES, "publish.py")]
    event_id, *_ = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert receiver.stdout.readline() == f"{event_id} inference.completed {{'run': 7}}\n"
    delivery = delivery_of(event_id, "DELIVERED")
    assert deliveries.get(delivery["id"])["event_id"] == event_id
    assert [each["status"] for each in deliveries.attempts(delivery["id"])] == [200]
    assert events.get(event_id)["data"] == {"run": 7}
    assert deliveries.resend(delivery["id"])["cycle"] == 2
    until(lambda: deliveries.get(delivery["id"])["state"] == "DELIVERED", "the second cycle")
    # A resend has the same id, so the receiver answers without the program: the next line is another event.
    tested = endpoints.test(endpoint["id"], {"type": "inference.completed", "data": {"run": 8}})
    assert receiver.stdout.readline().split()[0] == tested["event_id"]
    assert [each["id"] for each in endpoints.list(metadata={"team": "a"}, limit=1)] == [endpoint["id"]]
    return endpoint, receiver


def grade(endpoint):
    """The service finds no fault in the receiver."""
    started = endpoints.grade(endpoint["id"])
    done = ("COMPLETED", "FAILED")
    until(lambda: endpoints.get_grade(endpoint["id"], started["id"])["state"] in done, "the grade")
    report = endpoints.get_grade(endpoint["id"], started["id"])["report"]
    assert report["score"] == 100 and report["not_observed"] == [], report
    assert [each["id"] for each in endpoints.list_grades(endpoint["id"])] == [started["id"]]


def dead_letter(endpoint, receiver):
    """An event that nobody receives becomes a dead letter, and its replay is delivered."""
    receiver.kill()
    receiver.wait()
    event = events.publish({"type": "inference.completed", "data": {"n": 2**60}, "id": "run-9"})
    letter = until(lambda: next(iter(letters.list(event_id=event["id"])), None), "the dead letter")
    assert letters.get(letter["id"])["state"] == "DEAD_LETTERED"
    assert [each["event"]["data"] for each in letters.export(event_id=event["id"])] == [{"n": 2**60}]
    assert [each["count"] for each in letters.groups(endpoint_id=endpoint["id"])] == [1]
    receiver = start_receiver(endpoint["secret"])
    assert letters.count_replay({"ids": [letter["id"]]})["total"] == 1
    assert letters.summary()["total"] >= 1
    assert letters.replay(letter["id"])["cycle"] == 2
    assert receiver.stdout.readline().split()[0] == event["id"]
    until(lambda: deliveries.get(letter["id"])["state"] == "DELIVERED", "the replay")
    refused("INVALID_STATE", lambda: letters.replay(letter["id"]))
    return receiver


def publish():
    """Batches, typed errors, keys, and the catalogue of types."""
    items = events.publish_batch([{"type": "a.b", "data": {}}, {"type": "no type", "data": {}}])
    assert items[0]["id"].startswith("evt_") and items[1]["error"]["code"] == "VALIDATION_FAILED"
    error = refused("VALIDATION_FAILED", lambda: events.publish({"type": "x", "data": 7}))
    assert error.status == 422 and {each.pointer for each in error.errors} == {"/type", "/data"}, error.errors
    first = events.publish({"type": "only.once", "data": {}}, idempotency_key="key-1")
    assert events.publish({"type": "only.once", "data": {}}, idempotency_key="key-1") == first
    since = datetime.now(timezone.utc) - timedelta(hours=1)
    assert [each["id"] for each in events.list(event_type="only.once", from_=since)] == [first["id"]]
    events.erase_content(first["id"])
    assert events.get(first["id"])["data"] is None
    assert len(deliveries.stats()) == 24
    deliveries.usage(to=since.date().isoformat())
    type = {"name": "python.catalogued", "schema": {"required": ["a"]}}
    assert signet.event_types.create(type)["schema_version"] == 1
    refused("VALIDATION_FAILED", lambda: events.publish({"type": "python.catalogued", "data": {}}))
    assert signet.event_types.update("python.catalogued", {"schema": {}})["schema_version"] == 2
    assert len(list(signet.event_types.versions("python.catalogued", limit=1))) == 2
    assert [each["name"] for each in signet.event_types.list(archived=True)] == ["python.catalogued"]
    assert signet.event_types.get("python.catalogued")["schema"] == {}
    signet.event_types.delete("python.catalogued")


def change(endpoint, receiver):
    """Settings, secrets and jobs of the endpoint."""
    id, secrets = endpoint["id"], endpoints.secrets
    assert secrets.update(id, {"signing": "ed25519"})["signing"] == "ed25519"
    rotated = secrets.rotate(id, {"overlap_seconds": 60})
    versions = secrets.list(id)["data"]
    assert versions[0]["fingerprint"] == rotated["fingerprint"] and versions[0]["public_key"].startswith("whpk_")
    assert [each["state"] for each in secrets.activate(id)["data"]] == ["CURRENT", "PREVIOUS"]
    assert endpoints.update(id, {"description": "python"})["description"] == "python"
    assert endpoints.disable(id)["state"] == "DISABLED"
    missed = events.publish({"type": "inference.completed", "data": {"missed": True}})
    endpoints.enable(id)
    until(lambda: endpoints.get(id)["state"] == "ACTIVE", "an enabled endpoint")
    which = {"filter": {"endpoint_id": id}}
    until(lambda: letters.count_replay(which)["total"] == 1, "the dead letter of a disabled endpoint")
    job = letters.replay_all(which)
    until(lambda: signet.replays.get(job["id"])["state"] == "COMPLETED", "the job")
    # It still has the old secret, which signs beside the new one.
    assert receiver.stdout.readline().split()[0] == missed["id"]
    assert [each["state"] for each in signet.replays.items(job["id"], state="DONE")] == ["DONE"]
    until(lambda: signet.replays.outcomes(job["id"])["delivered"] == 1, "the outcome")
    span = {"since": datetime.now(timezone.utc) - timedelta(hours=1)}
    assert endpoints.count_missing(id, span)["total"] == 0
    endpoints.replay_missing(id, span)
    selection = {"states": ["DELIVERED"], "filter": {"endpoint_id": id}}
    assert signet.replays.count(selection)["total"] >= 3
    job = signet.replays.create({**selection, "rate_per_second": 1})
    assert signet.replays.pause(job["id"])["state"] == "PAUSED"
    assert signet.replays.resume(job["id"])["state"] == "RUNNING"
    assert signet.replays.cancel(job["id"])["state"] == "CANCELLED"
    assert job["id"] in [each["id"] for each in signet.replays.list()]


def cancel():
    """A delivery that waits is cancelled, and its endpoint deleted."""
    endpoint = endpoints.create({"url": f"http://127.0.0.1:{PORT}/hook", "events": ["python.paced"]})
    receiver = start_receiver(endpoint["secret"])
    until_active(endpoint["id"])
    endpoints.update(endpoint["id"], {"rate_limit": 1})
    published = [events.publish({"type": "python.paced", "data": {}})["id"] for _ in range(30)]
    waiting = delivery_of(published[-1], "QUEUED")
    # An attempt now still waits for the endpoint's rate.
    assert deliveries.retry(waiting["id"])["id"] == waiting["id"]
    assert deliveries.cancel(waiting["id"])["state"] == "CANCELLED"
    refused("INVALID_STATE", lambda: deliveries.retry(waiting["id"]))
    endpoints.delete(endpoint["id"])
    refused("NOT_FOUND", lambda: endpoints.get(endpoint["id"]))
    receiver.kill()


def manage():
    """Credentials, the portal and the compliance log."""
    credentials = signet.credentials
    [own] = list(credentials.list())
    assert credentials.get(own["id"])["versions"][0]["state"] == "ACTIVE"
    made = credentials.create({"name": "python"})
    assert credentials.create_signing_secret(made["id"], overlap_seconds=60)["secret"].startswith("whsec_")
    assert [each["state"] for each in credentials.signing_secrets(made["id"])] == ["GOOD"]
    assert credentials.require_signature(made["id"], True)["signature_required"] is True
    assert credentials.revoke_signing_secrets(made["id"], version=1)[0]["state"] == "REVOKED"
    theirs = SignetClient(
        URL, client_id=made["client_id"], client_secret=made["client_secret"], retry=RetryPolicy(attempts=1)
    )
    assert len(theirs.endpoints.list().page().data) > 0
    receipt = credentials.revoke(made["id"], reason="leaked")
    assert credentials.revoke_leaked(made["client_id"])["revocation_id"] == receipt["revocation_id"]
    # The revoked token is replaced, and the credential is rejected.
    assert refused("INVALID_CLIENT", lambda: theirs.endpoints.list().page()).status == 401
    assert "/portal/" in signet.portal.create_link({"expires_in_seconds": 60})["url"]
    entry = next(iter(signet.compliance.list(type="credential.revoked")))
    assert signet.compliance.get(entry["index"])["leaf_hash"] == entry["leaf_hash"]
    until(signed, "a checkpoint")


def signed():
    """Whether the log has a checkpoint. The service signs the first one soon after it starts."""
    try:
        return signet.compliance.checkpoint()["size"] > 0
    except SignetApiError as error:
        assert error.code == "NOT_FOUND", error
        return False


def follow():
    """A stream of security events, polled."""
    streams = signet.streams
    id = streams.create({"description": "python"})["stream_id"]
    assert [each["stream_id"] for each in streams.list()] == [id]
    assert streams.update(id, {"description": "changed"})["description"] == "changed"
    assert streams.get(id)["description"] == "changed"
    subject = {"format": "iss_sub", "iss": URL, "sub": CLIENT_ID}
    streams.remove_subject(id, subject)
    streams.add_subject(id, subject)
    assert streams.set_status(id, "paused", reason="maintenance")["status"] == "paused"
    assert streams.status(id)["reason"] == "maintenance"
    streams.set_status(id, "enabled")
    streams.verify(id, state="python")
    [jti] = streams.poll(id)["sets"]
    assert streams.poll(id, {"ack": [jti], "returnImmediately": True})["sets"] == {}
    streams.delete(id)
    refused("NOT_FOUND", lambda: streams.get(id))


methods = len(uncalled)
endpoint, receiver = receive()
grade(endpoint)
receiver = dead_letter(endpoint, receiver)
publish()
change(endpoint, receiver)
receiver.kill()
cancel()
manage()
follow()
print(json.dumps({"methods": methods, "uncalled": sorted(uncalled)}))
