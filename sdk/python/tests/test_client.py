"""The client with a scripted service on a real socket; only time and chance are replaced."""

import contextlib
import json
import pathlib
import re
import socket
import ssl
import tempfile
import threading
import time
import unittest
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, List, Optional, Sequence

from signet_delivery import CredentialStoreError, RetryPolicy, SignetApiError, SignetClient
from signet_delivery import SignetTransportError, StoredCredential, StoredSecret, TlsFiles
from signet_delivery._http import Connections
from signet_delivery._runtime import Runtime, retry_after
from signet_delivery._transport import Call
from signet_delivery.resources.resource import Resource

from .server import CLIENT_ID, Answer, ScriptedService, eventually, secret_of

README = pathlib.Path(__file__).parents[1] / "README.md"
EVENT: Any = {"type": "a.b", "data": {"run": 7}}
ACCEPTED = Answer(202, {"id": "evt_1", "type": "a.b", "created_at": "", "deliveries": 1})
UNAVAILABLE = Answer(503, {"code": "UNAVAILABLE"})


# A certificate with the common name localhost and no alternative names, and its key, until 2126.
NAMELESS_KEY = """
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgU1Le/vZmNx7ZKIVa
Dhxkz6vPuqNM5QhaTmRn/+xFqeKhRANCAARB0T/zclKlZVTW6nLwhUWF96Y4zjst
rEzKSkGwu1BD7+0yGNnpF6KdWnzksB7WGL5Wyw0TxJUuqcuG/wXz0FB9
"""
NAMELESS = """
MIIBgDCCASWgAwIBAgIUWMc0TmZPCzfMH0INUsqz38LKasowCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyODE1MzAzNVoYDzIxMjYxMTA0
MTUzMDM1WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARB0T/zclKlZVTW6nLwhUWF96Y4zjstrEzKSkGwu1BD7+0yGNnpF6Kd
WnzksB7WGL5Wyw0TxJUuqcuG/wXz0FB9o1MwUTAdBgNVHQ4EFgQUaa03eJx2y2P+
AJlG9Oaz3BpppLIwHwYDVR0jBBgwFoAUaa03eJx2y2P+AJlG9Oaz3BpppLIwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEAlDo3Q2Fkn62xSnwkcAM/
5GUi6BJISnOxqtG/dQ0bv9UCIQDUU6QTrgpKMkqQNx1rXseoplQbiu1XFXP8gQcg
+UPExQ==
"""


class MemoryStore:
    def __init__(self, credential: Optional[StoredCredential] = None) -> None:
        self.credential = credential
        self.failing = False
        self.saves = 0

    def load(self) -> Optional[StoredCredential]:
        if self.failing:
            raise OSError("disk")
        return self.credential

    def save(self, credential: StoredCredential) -> None:
        if self.failing:
            raise OSError("disk")
        self.credential = credential
        self.saves += 1


def credential(current: int, following: Optional[int] = None) -> StoredCredential:
    after = None if following is None else StoredSecret(secret_of(following), following)
    return StoredCredential(CLIENT_ID, StoredSecret(secret_of(current), current), after)


class WithService(unittest.TestCase):
    def setUp(self) -> None:
        self.service = ScriptedService().__enter__()
        self.addCleanup(self.service.__exit__)
        self.now = 1_000_000.0
        self.sleeps: List[float] = []

    def runtime(self) -> Runtime:
        def sleep(seconds: float) -> None:
            self.sleeps.append(seconds)
            self.now += seconds

        return Runtime(clock=lambda: self.now, sleep=sleep, random=lambda: 0.5)

    def client(self, **options: Any) -> SignetClient:
        if "store" not in options and "client_id" not in options:
            options.update(client_id=CLIENT_ID, client_secret=secret_of(1))
        signet = SignetClient(self.service.url, runtime=self.runtime(), **options)
        self.addCleanup(signet.close)
        return signet


class Tokens(WithService):
    def test_are_requested_once_for_all_threads(self) -> None:
        signet = self.client(scopes=["a", "b"])
        self.service.hold.clear()
        found: List[str] = []
        threads = [threading.Thread(target=lambda: found.append(signet.access_token().value)) for _ in range(8)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(self.service.token_requests) == 1, "the token request")
        self.service.hold.set()
        for thread in threads:
            thread.join(10)
        self.assertEqual(found, ["token-1"] * 8)
        self.assertEqual(signet.access_token().scope, "a b")
        self.assertEqual(len(self.service.token_requests), 1)

    def test_are_not_requested_again_by_a_thread_that_was_late(self) -> None:
        signet = self.client()
        found: List[str] = []
        others = iter([None, threading.Thread(target=lambda: found.append(signet.access_token().value))])

        def clock() -> float:
            # The other thread gets its token after this one has found none.
            other = next(others, None)
            if other is not None:
                other.start()
                other.join(10)
            return self.now

        signet._source._runtime = replace(self.runtime(), clock=clock)
        found.append(signet.access_token().value)
        self.assertEqual(found, ["token-1"] * 2)
        self.assertEqual(len(self.service.token_requests), 1)

    def test_are_renewed_in_the_background_and_used_meanwhile(self) -> None:
        signet = self.client()
        self.assertEqual(signet.access_token().value, "token-1")
        self.now += 900 * 0.77
        self.assertEqual(signet.access_token().value, "token-1")
        self.now += 900 * 0.01
        self.service.hold.clear()
        self.assertEqual([signet.access_token().value for _ in range(3)], ["token-1"] * 3)
        self.service.hold.set()
        eventually(lambda: signet.access_token().value == "token-2", "the renewal")
        self.assertEqual(len(self.service.token_requests), 2)

    def test_stay_in_use_while_renewals_fail_and_not_beyond_their_life(self) -> None:
        signet = self.client(retry=RetryPolicy(attempts=1))
        signet.access_token()
        self.now += 900 * 0.8
        self.service.token_answers = [UNAVAILABLE]
        with self.assertLogs("signet_delivery", "WARNING") as logs:
            self.assertEqual(signet.access_token().value, "token-1")
            eventually(lambda: len(logs.output) == 1, "the warning")
            signet.access_token()
            threads = threading.enumerate
            eventually(lambda: all(each.name != "signet-token" for each in threads()), "its end")
            self.assertEqual(len(self.service.token_requests), 2)
            self.now += 10
            self.service.token_answers = [UNAVAILABLE]
            signet.access_token()
            eventually(lambda: len(logs.output) == 2, "the next attempt")
        self.assertIn("REFRESH_FAILED", logs.output[0])
        self.assertEqual(len(self.service.token_requests), 3)
        self.now = 1_000_000.0 + 900 - 29
        self.service.token_answers = [UNAVAILABLE]
        with self.assertRaises(SignetApiError):
            signet.access_token()

    def test_of_a_rejected_credential_are_not_asked_for_at_once(self) -> None:
        self.service.valid = set()
        signet = self.client()
        for pause in (5, 10, 20):
            with self.assertRaises(SignetApiError) as caught:
                signet.access_token()
            self.assertEqual(caught.exception.code, "INVALID_CLIENT")
            asked = len(self.service.token_requests)
            self.now += pause - 0.1
            with self.assertRaises(SignetApiError):
                signet.access_token()
            self.assertEqual(len(self.service.token_requests), asked)
            self.now += 0.2

    def test_that_are_refused_are_replaced_once(self) -> None:
        refused = Answer(401, {"code": "TOKEN_REVOKED"})
        self.service.answers = [refused, ACCEPTED]
        signet = self.client()
        signet.events.publish(EVENT)
        sent = [each.headers["authorization"] for each in self.service.calls]
        self.assertEqual(sent, ["Bearer token-1", "Bearer token-2"])
        self.service.answers = [refused, refused]
        with self.assertRaises(SignetApiError):
            signet.events.publish(EVENT)
        self.assertEqual(len(self.service.calls), 4)

    def test_are_retried_by_one_party_only(self) -> None:
        self.service.token_answers = [UNAVAILABLE] * 20
        with self.assertRaises(SignetApiError):
            self.client().events.publish(EVENT)
        self.assertEqual(len(self.service.token_requests), 4)

    def test_need_a_credential(self) -> None:
        with self.assertRaises(ValueError):
            SignetClient(self.service.url)
        with self.assertRaises(CredentialStoreError):
            self.client(store=MemoryStore()).access_token()

    def test_may_be_requested_with_an_assertion(self) -> None:
        audiences: List[str] = []

        def assertion(audience: str) -> str:
            audiences.append(audience)
            return "header.claims.signature"

        with self.assertRaises(SignetApiError):
            self.client(client_id=CLIENT_ID, client_assertion=assertion).access_token()
        self.assertEqual(audiences, [f"{self.service.url}/v1/auth/token"])
        request = self.service.token_requests[0]
        self.assertIn(b"client_assertion=header.claims.signature", request.body)
        self.assertNotIn("authorization", request.headers)


class Rotation(WithService):
    def presented(self) -> List[int]:
        """Versions of the secrets that were presented."""
        pairs = [each.headers["authorization"] for each in self.service.token_requests]
        known = {self.basic(version): version for version in range(1, 5)}
        return [known[pair] for pair in pairs]

    def basic(self, version: int) -> str:
        from base64 import b64encode
        from urllib.parse import quote_plus

        return "Basic " + b64encode(f"{CLIENT_ID}:{quote_plus(secret_of(version))}".encode()).decode()

    def test_stores_the_successor_before_it_uses_it(self) -> None:
        store = MemoryStore(credential(1))
        self.service.due = {1}
        self.client(store=store).access_token()
        self.assertEqual(store.credential, credential(1, 2))
        self.client(store=store).access_token()
        self.assertEqual(store.credential, credential(2))
        self.assertEqual(self.presented(), [1, 2])

    def test_begins_with_a_configured_secret(self) -> None:
        store = MemoryStore()
        self.service.due = {1}
        options = {"store": store, "client_id": CLIENT_ID, "client_secret": secret_of(1)}
        self.client(**options).access_token()
        self.client(**options).access_token()
        self.assertEqual(store.credential, credential(2))

    def test_leaves_another_clients_credential_alone(self) -> None:
        other = StoredCredential("cl_other", StoredSecret("s", 1))
        store = MemoryStore(other)
        self.client(store=store, client_id=CLIENT_ID, client_secret=secret_of(1)).access_token()
        self.assertEqual((store.credential, self.presented()), (other, [1]))

    def test_writes_only_what_is_new(self) -> None:
        store = MemoryStore(credential(1))
        signet = self.client(store=store)
        for _ in range(3):
            self.now += 900
            signet.access_token()
        self.assertEqual((store.saves, len(self.service.token_requests)), (0, 3))

    def test_gets_the_same_successor_again_after_a_lost_answer(self) -> None:
        store = MemoryStore(credential(1))
        self.service.due = {1}
        self.service.token_answers = [Answer(lost=True)]
        self.client(store=store).access_token()
        self.assertEqual(store.credential, credential(1, 2))
        self.assertEqual(self.presented(), [1, 1])

    def test_goes_back_to_the_old_secret_if_the_successor_is_unknown(self) -> None:
        store = MemoryStore(credential(1, 3))
        self.service.due = {1}
        signet = self.client(store=store)
        signet.access_token()
        self.assertEqual(self.presented(), [3, 1])
        self.assertEqual(store.credential, credential(1, 2))

    def test_never_uses_a_successor_that_it_cannot_store(self) -> None:
        store = MemoryStore(credential(1))
        self.service.due = {1}
        signet = self.client(store=store)
        signet.access_token()
        store.credential, store.failing = credential(1), True
        with self.assertLogs("signet_delivery", "WARNING") as logs:
            self.now += 900
            signet.access_token()
        self.assertEqual(self.presented(), [1, 1])
        self.assertEqual([line.split(":")[2] for line in logs.output], ["STORE_UNREADABLE", "SUCCESSOR_NOT_STORED"])
        self.assertNotIn("canary", " ".join(logs.output))


class Retries(WithService):
    def test_keep_the_key_so_that_an_event_is_published_once(self) -> None:
        self.service.answers = [Answer(lost=True), UNAVAILABLE, Answer(502, "no JSON of ours"), ACCEPTED]
        self.assertEqual(self.client().events.publish(EVENT)["id"], "evt_1")
        self.assertEqual(len({each.headers["idempotency-key"] for each in self.service.calls}), 1)
        self.assertEqual([json.loads(each.body) for each in self.service.calls], [EVENT] * 4)
        self.assertEqual(self.sleeps, [0.125, 0.25, 0.5])

    def test_wait_as_long_as_the_service_asks(self) -> None:
        self.service.answers = [replace(UNAVAILABLE, headers={"retry-after": "7"}), ACCEPTED]
        signet = self.client()
        signet.events.publish(EVENT)
        self.assertEqual(self.sleeps, [7.125])
        at = datetime.fromtimestamp(self.now + 9, timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
        self.service.answers = [Answer(429, {}, {"retry-after": at}), ACCEPTED]
        signet.events.publish(EVENT)
        self.assertAlmostEqual(self.sleeps[1], 9.125, delta=1)
        self.service.answers = [replace(UNAVAILABLE, headers={"retry-after": "31"})]
        with self.assertRaises(SignetApiError) as caught:
            signet.events.publish(EVENT)
        self.assertEqual(caught.exception.retry_after, 31)

    def test_know_seconds_of_any_length_and_three_forms_of_dates(self) -> None:
        now = datetime(2026, 11, 26, 16, 5, 55, tzinfo=timezone.utc).timestamp()
        self.assertEqual(retry_after("9" * 400, now), 2.0**53)
        for date in (
            "Thu, 26 Nov 2026 16:20:55 GMT",
            "Thursday, 26-Nov-26 16:20:55 GMT",
            "Thu Nov 26 16:20:55 2026",
        ):
            self.assertEqual(retry_after(date, now), 900)
        self.assertIsNone(retry_after("soon", now))

    def test_end(self) -> None:
        self.service.answers = [UNAVAILABLE] * 5
        with self.assertRaises(SignetApiError) as caught:
            self.client().events.publish(EVENT)
        self.assertEqual((caught.exception.status, caught.exception.code), (503, "UNAVAILABLE"))
        self.assertEqual(len(self.service.calls), 4)

    def test_leave_alone_what_may_have_been_done(self) -> None:
        signet = self.client()
        self.service.answers = [UNAVAILABLE]
        with self.assertRaises(SignetApiError):
            signet.dead_letters.replay("dlv_1")
        self.service.answers = [Answer(lost=True)]
        with self.assertRaises(SignetTransportError):
            signet.endpoints.verify("ep_1")
        self.assertEqual(len(self.service.calls), 2)
        self.service.answers = [Answer(429, {}), Answer(202, {"id": "dlv_1"})]
        self.assertEqual(signet.deliveries.resend("dlv_1")["id"], "dlv_1")

    def test_of_a_deletion_take_404_for_its_success(self) -> None:
        signet = self.client()
        self.service.answers = [Answer(lost=True), Answer(404, {"code": "NOT_FOUND"})]
        signet.endpoints.delete("ep_1")
        self.service.answers = [Answer(404, {"code": "NOT_FOUND"})]
        with self.assertRaises(SignetApiError):
            signet.endpoints.delete("ep_1")


class Misdirected(WithService):
    def setUp(self) -> None:
        super().setUp()
        self.other = ScriptedService().__enter__()
        self.addCleanup(self.other.__exit__)

    def test_requests_go_to_the_listed_api_that_a_421_names(self) -> None:
        signet = self.client(region_urls=[f"{self.other.url}/"])
        self.service.answers = [Answer(421, {"code": "MISDIRECTED_REQUEST", "base_url": f"{self.other.url}/"})]
        # Not safe to repeat.
        signet.endpoints.update("ep_1", {"description": "x"})
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: "
        self.other.answers.append(Answer(raw=head + b'9\r\n\r\n{"id":1}\n'))
        self.assertEqual([each["id"] for each in signet.dead_letters.export()], [1])
        signet.events.get("evt_1")
        self.assertEqual([each.path for each in self.service.calls], ["/v1/webhooks/endpoints/ep_1", "/v1/events/evt_1"])
        first, second = self.other.seen
        self.assertEqual((first.method, first.path), ("PATCH", "/v1/webhooks/endpoints/ep_1"))
        self.assertEqual((first.headers["authorization"], first.body), ("Bearer token-1", b'{"description":"x"}'))
        self.assertEqual(second.path, "/v1/webhooks/dlq/export")
        # Kinds of the same API share its connections.
        self.service.answers = [Answer(421, {"base_url": self.other.url})]
        signet.events.get("evt_1")
        self.assertEqual(len(set(signet._transport._elsewhere.values())), 1)
        # Another thread may have learned the address since this one sent its request.
        call, asked = Call("GET", "/v1/events", {}, None, None, True), signet._connections
        named = SignetApiError(421, {"base_url": self.other.url})
        self.assertIsNotNone(signet._transport._learn(call, asked, named))

    def test_requests_without_another_listed_address_fail(self) -> None:
        signet = self.client(region_urls=[self.other.url])
        for named in (None, 7, "ftp://example.com", "/", f"{self.other.url}?to=x", "https://a@b", self.service.url):
            self.service.answers = [Answer(421, {"base_url": named})]
            with self.assertRaises(SignetApiError, msg=str(named)) as caught:
                signet.endpoints.get("ep_1")
            self.assertEqual(caught.exception.status, 421)
        self.assertEqual(len(self.service.calls), 7)
        self.service.answers = [Answer(421, {"base_url": self.other.url})]
        self.other.answers = [Answer(421, {"base_url": self.service.url})]
        with self.assertRaises(SignetApiError):
            signet.endpoints.get("ep_1")
        self.assertEqual((len(self.service.calls), len(self.other.seen)), (8, 1))

    def test_requests_send_no_token_to_an_address_that_is_not_listed(self) -> None:
        signet = self.client(region_urls=["https://us.example.com"])
        self.service.answers = [Answer(421, {"detail": "Elsewhere.", "base_url": self.other.url})]
        with self.assertRaises(SignetApiError) as caught:
            signet.events.publish({"type": "a.b", "data": {}})
        advice = f"Elsewhere. The client sends no token to {self.other.url}: add it to region_urls"
        self.assertIn(advice, str(caught.exception))
        self.assertEqual((caught.exception.status, self.other.seen), (421, []))

    def test_requests_ask_for_a_region_again_that_does_not_answer(self) -> None:
        third = ScriptedService().__enter__()
        self.addCleanup(third.__exit__)
        signet = self.client(region_urls=[self.other.url, third.url], retry=RetryPolicy(attempts=1))
        self.service.answers = [Answer(421, {"base_url": self.other.url})]
        signet.events.get("evt_1")
        self.other.answers = [Answer(lost=True)]
        with self.assertRaises(SignetTransportError):
            signet.events.get("evt_1")
        self.service.answers = [Answer(421, {"base_url": third.url})]
        signet.events.get("evt_1")
        self.assertEqual(len(third.calls), 1)

    def test_requests_keep_their_certificate_and_stay_encrypted(self) -> None:
        for url in ("http://us.example.com", "https://a@b", "https://a?to=x"):
            with self.assertRaises(ValueError, msg=url):
                self.client(region_urls=[url])
        with self.assertRaises(ValueError):
            self.client(region_urls="https://us.example.com")
        home, files = "https://a", TlsFiles()
        signet = SignetClient(home, client_id=CLIENT_ID, tls=files, region_urls=["https://b"])
        self.assertEqual([api._tls for api in signet._transport._apis.values()], [files, files])
        with self.assertRaises(ValueError):
            SignetClient(home, client_id=CLIENT_ID, tls=files, region_urls=["http://127.0.0.1"])


class Exchanges(WithService):
    def answered(self, answer: Answer, **options: Any) -> Exception:
        self.service.answers = [answer] * 4
        with self.assertRaises((SignetApiError, SignetTransportError)) as caught:
            self.client(retry=RetryPolicy(attempts=1), **options).endpoints.get("ep_1")
        return caught.exception

    def test_reuse_a_connection_and_notice_that_it_was_closed(self) -> None:
        signet = self.client()
        for _ in range(3):
            signet.endpoints.list().page()
        self.assertEqual(len({each.peer for each in self.service.seen}), 1)
        self.service.answers = [Answer(200, {}, hangs_up=True)]
        signet.endpoints.get("ep_1")
        [kept] = signet._connections._idle
        eventually(lambda: not kept.timed.is_idle(), "the end of the connection")
        # Not repeatable, so a dead connection would be an error.
        self.service.answers = [Answer(202, {"id": "dlv_1"})]
        signet.dead_letters.replay("dlv_1")
        self.assertEqual(self.sleeps, [])

    def test_name_every_problem(self) -> None:
        problems = [
            {"pointer": "/type", "code": "pattern", "detail": "no type"},
            {"pointer": "/data", "code": "type", "detail": "no object"},
        ]
        problem = {"code": "VALIDATION_FAILED", "detail": "bad", "request_id": "req_7", "errors": problems}
        error = self.answered(Answer(422, problem))
        assert isinstance(error, SignetApiError)
        self.assertEqual((error.status, error.code, error.request_id), (422, "VALIDATION_FAILED", "req_7"))
        self.assertEqual([each.pointer for each in error.errors], ["/type", "/data"])
        self.assertEqual(str(error), "VALIDATION_FAILED: bad (request req_7)")

    def test_need_a_certificate_that_names_the_host(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            place = pathlib.Path(directory)
            certificate, key = place / "server.pem", place / "server.key"
            certificate.write_text(f"-----BEGIN CERTIFICATE-----{NAMELESS}-----END CERTIFICATE-----")
            key.write_text(f"-----BEGIN PRIVATE KEY-----{NAMELESS_KEY}-----END PRIVATE KEY-----")
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.load_cert_chain(certificate, key)
            with socket.create_server(("127.0.0.1", 0)) as listener:

                def refused() -> None:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        server.wrap_socket(connection, server_side=True).close()

                thread = threading.Thread(target=refused)
                thread.start()
                signet = SignetClient(
                    f"https://localhost:{listener.getsockname()[1]}",
                    client_id=CLIENT_ID,
                    tls=TlsFiles(ca_file=str(certificate)),
                    retry=RetryPolicy(attempts=1),
                )
                with self.assertRaises(SignetTransportError) as caught:
                    signet.access_token()
                thread.join()
        self.assertIn("CERTIFICATE_VERIFY_FAILED", str(caught.exception))

    def test_follow_no_redirect(self) -> None:
        error = self.answered(Answer(307, {}, {"location": f"{self.service.url}/stolen"}))
        assert isinstance(error, SignetApiError)
        self.assertEqual(error.code, "HTTP_307")
        self.assertEqual(len(self.service.calls), 1)

    def test_keep_the_token_out_of_errors(self) -> None:
        error = self.answered(Answer(500, {"code": "X", "detail": "you sent Bearer token-1"}))
        self.assertNotIn("token-1", f"{error} {error.__dict__}")
        self.assertNotIn("canary", repr(TlsFiles(password="canary")))
        self.assertNotIn("token-2", repr(self.client().access_token()))

    def test_end_in_time_also_if_the_answer_drips(self) -> None:
        ok = b"HTTP/1.1 200 OK\r\n"
        for answer in (
            Answer(raw=ok + b"a: b\r\n" * 99, slowly=True),
            Answer(raw=ok + b"content-length: 99\r\n\r\n" + b" " * 99, slowly=True),
            Answer(silent=True),
        ):
            began = time.monotonic()
            signet = self.client(timeout=0.6, retry=RetryPolicy(attempts=1))
            self.service.answers = [answer]
            with self.assertRaises(SignetTransportError) as caught:
                signet.endpoints.get("ep_1")
            self.assertEqual(caught.exception.code, "TIMEOUT")
            self.assertLess(time.monotonic() - began, 4)

    def test_reject_what_is_not_a_whole_answer(self) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-length: "
        for raw, code in (
            (b"nonsense\r\n\r\n", "CONNECTION"),
            (head + b"9\r\n\r\n{}", "CONNECTION"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n", "CONNECTION"),
            (head + b"3\r\n\r\n{}]", "INVALID_ANSWER"),
            (head + b"99999999999\r\n\r\n" + b" " * 67_200_000, "INVALID_ANSWER"),
        ):
            error = self.answered(Answer(raw=raw))
            assert isinstance(error, SignetTransportError)
            self.assertEqual(error.code, code)

    def test_do_not_repeat_what_the_service_cannot_mean(self) -> None:
        self.service.answers = [Answer(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{")] * 4
        with self.assertRaises(SignetTransportError):
            self.client().endpoints.get("ep_1")
        self.assertEqual(len(self.service.calls), 1)

    def test_reject_an_unsafe_address(self) -> None:
        for address in ("http://example.com", "ftp://x", "https://", "https://a@b", "https://a?b", "https://a#b"):
            with self.assertRaises(ValueError, msg=address):
                SignetClient(address, client_id=CLIENT_ID, client_secret="s")
        SignetClient("http://example.com", client_id=CLIENT_ID, client_secret="s", allow_plain_http=True)

    def test_take_an_id_and_a_secret_from_a_file(self) -> None:
        for begin, end in (("", "\n"), ("\ufeff", "\r\n"), (" ", "\t")):
            options = {"client_id": f"{begin}{CLIENT_ID}{end}", "client_secret": f"{begin}{secret_of(1)}{end}"}
            self.assertIn("token-", self.client(**options).access_token().value)

    def test_reject_wrong_arguments_before_the_first_request(self) -> None:
        async def later(audience: str) -> str:
            return audience

        wrong: "List[tuple[Any, str]]" = [
            ({"client_id": " \n"}, "client_id is empty"),
            ({"client_secret": ""}, "client_secret is empty"),
            ({"client_secret": b"s"}, "client_secret is not a str"),
            ({"client_assertion": "eyJ"}, "client_assertion is not a function"),
            ({"client_assertion": later}, "client_assertion is async"),
            ({"store": "credential.json"}, "store.load is not set"),
        ]
        for arguments, message in wrong:
            with self.subTest(message), self.assertRaises(ValueError) as caught:
                SignetClient("https://a", **{"client_id": CLIENT_ID, **arguments})
            self.assertIn(message, str(caught.exception))
        with self.assertRaises(ValueError):
            SignetClient("https://a", client_id=CLIENT_ID, tls=TlsFiles(key_file="client.key"))

    def test_encode_ids_times_and_filters(self) -> None:
        signet = self.client()
        signet.events.list(from_=datetime(2026, 1, 1, tzinfo=timezone.utc), limit=5).page("c&1")
        signet.endpoints.list(metadata={"team": "a b"}).page()
        signet.endpoints.delete("../x?y")
        self.assertEqual(
            [each.path for each in self.service.calls],
            [
                "/v1/events?from=2026-01-01T00%3A00%3A00.000Z&limit=5&cursor=c%261",
                "/v1/webhooks/endpoints?metadata%5Bteam%5D=a+b",
                "/v1/webhooks/endpoints/..%2Fx%3Fy",
            ],
        )
        with self.assertRaises(ValueError):
            signet.endpoints.delete("")
        with self.assertRaises(ValueError):
            signet.events.list(from_=datetime(2026, 1, 1)).page()
        with self.assertRaises(ValueError):
            signet.events.publish({"type": "a.b", "data": {"x": float("nan")}})


class Readme(WithService):
    def test_names_every_method(self) -> None:
        rows = re.findall(r"^\| `([a-z_.]+)` \| (`.*`) \|$", README.read_text(), re.MULTILINE)
        named = {member: re.findall("`([a-z_]+)`", calls) for member, calls in rows}
        signet = self.client()
        members = {**vars(signet), "endpoints.secrets": signet.endpoints.secrets}
        resources = {name: each for name, each in members.items() if isinstance(each, Resource)}
        self.assertEqual(set(named), set(resources))
        for name, each in resources.items():
            methods = [call for call in dir(each) if not call.startswith("_") and callable(getattr(each, call))]
            self.assertEqual(sorted(named[name]), methods, name)


class Lists(WithService):
    def test_read_pages_as_needed(self) -> None:
        pages = [(["a", "b"], "c1"), (["c"], None)]
        self.service.answers = [
            Answer(body={"data": [{"id": id} for id in ids], "next_cursor": cursor}) for ids, cursor in pages
        ]
        found = self.client().endpoints.list(limit=2)
        self.assertEqual([each["id"] for each in found], ["a", "b", "c"])
        self.assertEqual([each.path.partition("?")[2] for each in self.service.calls], ["limit=2", "limit=2&cursor=c1"])

    def test_have_numbers_of_any_length(self) -> None:
        numbers = ("7" * 4_301, "1e400", "9007199254740993", "1.5")
        for number in numbers:
            text = b'{"data":[{"id":"evt_1","data":{"n":%s}}],"next_cursor":null}' % number.encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text)
            self.service.answers = [Answer(raw=head + text), ACCEPTED]
            signet = self.client()
            [event] = signet.events.list()
            data: Any = event["data"]
            self.assertEqual(Decimal(data["n"]), Decimal(number))
            signet.events.publish({"type": "a.b", "data": data})
            sent = json.loads(self.service.calls[-1].body, parse_int=Decimal, parse_float=Decimal)
            self.assertEqual(sent["data"]["n"], Decimal(number))
        with self.assertRaises(ValueError):
            self.client().events.publish({"type": "a.b", "data": {"n": Decimal("NaN")}})
        line = b'{"id":%s}\n' % numbers[0].encode()
        self.assertEqual(self.exported([line]), [Decimal(numbers[0])])

    def exported(self, chunks: Sequence[bytes], end: bytes = b"0\r\n\r\n") -> List[Any]:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
        self.service.answers = [Answer(raw=head + body + end)]
        return [each["id"] for each in self.client().dead_letters.export()]

    def test_of_an_export_are_complete_or_fail(self) -> None:
        self.assertEqual(self.exported([b'{"id":1}\n{"i', b'd":2}\n']), [1, 2])
        self.assertEqual(self.exported([]), [])
        last = b"0\r\n\r\n"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n"
        for framing in (b"", b"content-length: 99\r\n"):
            self.service.answers = [Answer(raw=head + framing + b'\r\n{"id":1}\n')]
            with self.assertRaises(SignetTransportError, msg=framing.decode()):
                list(self.client().dead_letters.export())
        for chunks, end in (([b'{"id":1}\n'], b""), ([b'{"id":1}'], last), ([b"{\n"], last)):
            with self.assertRaises(SignetTransportError, msg=f"{chunks}{end!r}"):
                self.exported(chunks, end)
