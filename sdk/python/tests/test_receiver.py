"""The receiver: what it accepts as headers, and that it processes each event once."""

import base64
import functools
import json
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
from decimal import Decimal
from typing import Any, Dict, List, cast

from signet_delivery import Receiver, VerificationError, WebhookEvent, sign_delivery, verify
from signet_delivery._json import loads

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(32)).decode()


def delivery(id: str = "evt_1", **members: Any) -> "tuple[bytes, Dict[str, str]]":
    now = int(time.time())
    body = json.dumps({"id": id, "type": "a.b", "sent_at": now, "data": {"run": 7}, **members}).encode()
    return body, sign_delivery(SECRET, body, id=id, timestamp=now)


class Headers(unittest.TestCase):
    def test_are_taken_as_frameworks_have_them(self) -> None:
        body, headers = delivery()
        for form in (
            headers,
            list(headers.items()),
            {**headers, "X-Service-Signature-256-Alt": None},
            {name.upper(): [value] for name, value in headers.items()},
            [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        ):
            self.assertEqual(verify(body, form, SECRET).id, "evt_1")

    def test_are_taken_from_a_wsgi_environment(self) -> None:
        body, headers = delivery()
        environ: Dict[str, Any] = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers.items()}
        environ.update({"wsgi.version": (1, 0), "REQUEST_METHOD": "POST", "CONTENT_LENGTH": str(len(body))})
        self.assertEqual(verify(body, environ, SECRET).id, "evt_1")
        # Elsewhere such a name is a header of its own.
        del environ["wsgi.version"]
        with self.assertRaises(VerificationError):
            verify(body, environ, SECRET)

    def test_that_are_repeated_are_rejected(self) -> None:
        body, headers = delivery()
        twice = [*headers.items(), ("WEBHOOK-ID", "evt_1")]
        with self.assertRaises(VerificationError) as caught:
            verify(body, twice, SECRET)
        self.assertEqual(caught.exception.code, "HEADERS_MALFORMED")


class Verify(unittest.TestCase):
    def test_takes_several_secrets_and_rejects_others(self) -> None:
        body, headers = delivery()
        self.assertEqual(verify(body, headers, [OTHER, SECRET]).scheme, "v1")
        with self.assertRaises(VerificationError) as caught:
            verify(body, headers, OTHER)
        self.assertEqual(caught.exception.code, "SIGNATURE_INVALID")

    def test_needs_bytes_and_secrets(self) -> None:
        body, headers = delivery()
        with self.assertRaises(TypeError):
            verify(body.decode(), headers, SECRET)  # type: ignore[arg-type]
        other_spelling = f"{SECRET[:-2]}9="
        self.assertEqual(base64.b64decode(other_spelling[6:]), base64.b64decode(SECRET[6:]))
        for secrets in ([], "", "secret", [SECRET[:-1]], other_spelling):
            with self.assertRaises(ValueError):
                verify(body, headers, secrets)

    def test_prefers_the_signature_that_covers_more(self) -> None:
        body, headers = delivery()
        old = sign_delivery(OTHER, body, id="evt_1", timestamp=1)["X-Service-Signature-256"]
        mixed = {**headers, "X-Service-Signature-256": old}
        self.assertEqual(verify(body, mixed, [OTHER, SECRET]).scheme, "v1")

    def test_knows_json_from_what_python_takes_for_it(self) -> None:
        body = b'{"sent_at": NaN}'
        self.assertIsNone(verify(body, sign_delivery(SECRET, body, id="e", timestamp=1), SECRET, now=1).payload)
        body = b'{"sent_at": true}'
        with self.assertRaises(VerificationError):
            verify(body, sign_delivery(SECRET, body, id="e", timestamp=1), SECRET, now=1)


#: Numbers that ``int`` or ``float`` cannot hold.
LONG = ("7" * 4_301, "-" + "7" * 100_000, "1e400", "-1e999999", "1e-400", "0." + "0" * 5_000 + "1")


class Numbers(unittest.TestCase):
    def test_of_any_length_reach_the_handler(self) -> None:
        for number in LONG:
            body = f'{{"id":"evt_1","type":"a.b","sent_at":{int(time.time())},"data":{{"n":{number}}}}}'.encode()
            headers = sign_delivery(SECRET, body, id="evt_1", timestamp=int(time.time()))
            old = {name: value for name, value in headers.items() if name.startswith("X-")}
            for each in (headers, old):
                events: List[WebhookEvent] = []
                answer = Receiver(SECRET, events.append).receive(body, each)
                self.assertEqual((answer.status, len(events)), (200, 1), number[:20])
                self.assertEqual(events[0].type, "a.b")
                self.assertEqual(events[0].body, body)
                self.assertEqual(events[0].payload["data"]["n"], Decimal(number))

    def test_are_ordinary_where_python_holds_them(self) -> None:
        found = loads('[7, -7, 1.5, 1e2, 0.0, -0e9, 0e-999]')
        self.assertEqual([type(each) for each in found], [int, int] + [float] * 5)
        self.assertEqual(found, [7, -7, 1.5, 100, 0, 0, 0])
        # Beyond what Decimal holds.
        self.assertEqual(loads("1e9999999999999999999999"), float("inf"))


MALFORMED: "List[tuple[Any, str]]" = [
    (None, "secrets is not set"),
    ("", "secrets is empty"),
    ("oops", "secrets begins neither"),
    (b"whsec_", "secrets is not a str"),
    (7, "secrets is not a str"),
    ([], "secrets is empty"),
    ([None], "secrets[0] is not set"),
    ([SECRET, " \n"], "secrets[1] is empty"),
    ([SECRET, "whsec_AAAA"], "secrets[1] is malformed"),
    ([f"{SECRET[:20]} {SECRET[20:]}"], "secrets[0] is malformed"),
    (["whpk_AAAA"], "secrets[0] is malformed"),
    ([SECRET.replace("whsec_", "")], "secrets[0] begins neither"),
]


class Configuration(unittest.TestCase):
    def test_without_a_good_secret_does_not_start(self) -> None:
        for secrets, message in MALFORMED:
            with self.subTest(message):
                with self.assertRaises(ValueError) as caught:
                    Receiver(secrets, print)
                self.assertIn(message, str(caught.exception))
                self.assertNotIn(SECRET[6:20], str(caught.exception))
                body, headers = delivery()
                with self.assertRaises(ValueError):
                    verify(body, headers, secrets)

    def test_may_have_white_space_around_secrets(self) -> None:
        for secrets in (f"{SECRET}\n", f"\ufeff{SECRET}\r\n", [f" {SECRET}\t"], (SECRET,), lambda: [f"{SECRET}\n"]):
            answer = Receiver(secrets, lambda event: None).receive(*delivery())
            self.assertEqual(json.loads(answer.body), {"processed": True})

    def test_with_other_wrong_arguments_does_not_start(self) -> None:
        wrong: "List[tuple[Dict[str, Any], str]]" = [
            ({"on_event": None}, "on_event"),
            ({"on_error": "log"}, "on_error"),
            ({"replay_store": {}}, "replay_store.seen is not set"),
            ({"tolerance": -1}, "tolerance"),
            ({"future": float("nan")}, "future"),
            ({"remember": "10 days"}, "remember"),
            ({"header_brand": ""}, "header_brand"),
        ]
        for arguments, message in wrong:
            with self.subTest(message), self.assertRaises(ValueError) as caught:
                Receiver(**{"secrets": SECRET, "on_event": print, **arguments})
            self.assertIn(message, str(caught.exception))

    def test_with_async_functions_does_not_start(self) -> None:
        async def later(*_: Any) -> None:
            raise AssertionError("nobody awaits this")

        async def one_by_one(*_: Any) -> Any:
            yield None

        class Callable:
            async def __call__(self, *_: Any) -> None: ...

        class Store:
            seen = later

            def forget(self, id: str) -> None: ...

        functions: "List[Any]" = [later, one_by_one, Callable(), functools.partial(later, 7)]
        for function in functions:
            for name in ("on_event", "on_error", "secrets"):
                with self.subTest(name), self.assertRaises(ValueError) as caught:
                    Receiver(**{"secrets": SECRET, "on_event": print, name: function})
                self.assertIn(f"{name} is async", str(caught.exception))
        with self.assertRaises(ValueError) as caught:
            Receiver(SECRET, print, replay_store=cast(Any, Store()))
        self.assertIn("replay_store.seen is async", str(caught.exception))

    def test_needs_ed25519_for_a_public_key(self) -> None:
        key = "whpk_" + base64.b64encode(bytes(range(32))).decode()
        with unittest.mock.patch.dict("sys.modules", {"cryptography.hazmat.primitives.asymmetric.ed25519": None}):
            with self.assertRaises(ImportError) as caught:
                Receiver(key, print)
        self.assertIn("signet-delivery[crypto]", str(caught.exception))


class Reporting(unittest.TestCase):
    """Where the program does not listen."""

    def lines(self, receiver: Receiver, *requests: "tuple[Any, Any]") -> "tuple[List[int], List[str]]":
        with self.assertLogs("signet_delivery") as logs:
            statuses = [receiver.receive(*request).status for request in requests]
        return statuses, [record.getMessage() for record in logs.records]

    def test_logs_the_first_of_each_kind(self) -> None:
        body, headers = delivery()
        requests = [(body, {}), (b"{}", headers), (body + b" ", headers), (body, {"webhook-id": "x"})]
        statuses, lines = self.lines(Receiver(SECRET, print), *requests)
        self.assertEqual(statuses, [400, 401, 401, 400])
        self.assertEqual(len(lines), 2)
        self.assertIn("refused with 400 HEADERS_MALFORMED", lines[0])
        self.assertIn("refused with 401 SIGNATURE_INVALID", lines[1])

    def test_logs_each_class_of_failure(self) -> None:
        sealed, full, bug = OSError("the vault is sealed"), OSError("the disk is full"), KeyError("a bug")
        failure: List[Exception] = []

        def secrets() -> str:
            if failure[0] is sealed:
                raise sealed
            return SECRET

        def save(event: WebhookEvent) -> None:
            raise failure[0]

        receiver = Receiver(secrets, save)
        with self.assertLogs("signet_delivery") as logs:
            for each in (sealed, full, bug) * 2:
                failure[:] = [each]
                self.assertEqual(receiver.receive(*delivery()).status, 500)
        self.assertEqual([record.exc_info and record.exc_info[1] for record in logs.records], [sealed, full, bug])

    def test_tells_its_own_mistakes_from_the_senders(self) -> None:
        def fail(event: WebhookEvent) -> None:
            # As a program that verifies what it forwards.
            raise VerificationError("SIGNATURE_INVALID", "of another webhook")

        body, headers = delivery()
        empty = {**headers, "Content-Length": str(len(body))}
        mistakes: "List[tuple[Receiver, Any, Any]]" = [
            (Receiver(SECRET, fail), body, headers),
            (Receiver(lambda: [], print), body, headers),
            (Receiver(lambda: [f"{SECRET}x"], print), body, headers),
            (Receiver(SECRET, print), body.decode(), headers),
            (Receiver(SECRET, print), None, headers),
            # Something has read the body.
            (Receiver(SECRET, print), b"", empty),
        ]
        for receiver, given, with_headers in mistakes:
            statuses, lines = self.lines(receiver, (given, with_headers), (given, with_headers))
            self.assertEqual(statuses, [500, 500])
            self.assertEqual(len(lines), 1, lines)
            self.assertIn("failed in this receiver", lines[0])

    def test_is_on_standard_error_without_a_configuration(self) -> None:
        program = (
            "from signet_delivery import Receiver\n"
            f"receiver = Receiver({SECRET!r}, print)\n"
            "receiver.receive(b'', {}), receiver.receive(b'', {})\n"
        )
        ran = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
        self.assertEqual(ran.stdout, b"")
        self.assertEqual(ran.stderr.count(b"HEADERS_MALFORMED"), 2, ran.stderr)
        self.assertEqual(ran.stderr.count(b"signet: a webhook was refused"), 1, ran.stderr)


class Receiving(unittest.TestCase):
    def setUp(self) -> None:
        self.events: List[WebhookEvent] = []
        self.errors: List[Exception] = []
        self.receiver = Receiver(SECRET, self.events.append, on_error=self.errors.append)

    def test_never_passes_on_a_payload_that_was_not_parsed(self) -> None:
        for body in (b"{", b"", b"\xff\xfe{", b'{"n":NaN}', b"[" * 100_000):
            headers = sign_delivery(SECRET, body, id="evt_1", timestamp=int(time.time()))
            self.assertEqual(self.receive(body, headers), (400, {"error": "PAYLOAD_MALFORMED"}), body[:9])
        self.assertEqual(self.events, [])
        self.assertEqual(len(self.errors), 5)
        headers = sign_delivery(SECRET, b" null ", id="evt_2", timestamp=int(time.time()))
        self.assertEqual(self.receive(b" null ", headers), (200, {"processed": True}))

    def receive(self, body: bytes, headers: Dict[str, str]) -> "tuple[int, Any]":
        answer = self.receiver.receive(body, headers)
        return answer.status, json.loads(answer.body)

    def test_never_answers_200_before_the_programs_functions_have_run(self) -> None:
        async def later() -> None: ...

        class Store:
            def __init__(self) -> None:
                self.forgotten: List[str] = []

            def seen(self, id: str, until: float) -> Any:
                return later()

            def forget(self, id: str) -> None:
                self.forgotten.append(id)

        def piece_by_piece(event: WebhookEvent) -> Any:
            yield event

        errors: List[Exception] = []
        for receiver in (
            Receiver(SECRET, lambda event: later(), on_error=errors.append),
            Receiver(SECRET, piece_by_piece, on_error=errors.append),
            Receiver(SECRET, print, replay_store=Store(), on_error=errors.append),
            Receiver(cast(Any, lambda: later()), print, on_error=errors.append),
        ):
            for _ in range(2):
                self.assertEqual(receiver.receive(*delivery()).status, 500)
        self.assertEqual([type(error) for error in errors], [TypeError] * 8)

    def test_processes_an_event_once(self) -> None:
        self.assertEqual(self.receive(*delivery()), (200, {"processed": True}))
        self.assertEqual(self.receive(*delivery()), (200, {"processed": False}))
        self.assertEqual([(event.id, event.type) for event in self.events], [("evt_1", "a.b")])

    def test_answers_pings_and_grades_without_the_program(self) -> None:
        ping = delivery(type="ping", source="service", data={"challenge": "c1"})
        self.assertEqual(self.receive(*ping), (200, {"challenge": "c1"}))
        self.assertEqual(self.receive(*delivery(type="signet.grade", source="service")), (200, {"processed": True}))
        self.assertEqual(self.events, [])
        # A tenant's event may have that type, too.
        self.receive(*delivery("evt_2", type="signet.grade"))
        self.assertEqual([event.from_service for event in self.events], [False])

    def test_takes_an_event_again_after_a_failure(self) -> None:
        failures: List[Exception] = [RuntimeError("no database")]

        def save(event: WebhookEvent) -> None:
            if failures:
                raise failures.pop()
            self.events.append(event)

        self.receiver = Receiver(lambda: [SECRET], save, on_error=self.errors.append)
        self.assertEqual(self.receive(*delivery()), (500, {"error": "FAILED"}))
        self.assertEqual(self.receive(*delivery()), (200, {"processed": True}))
        self.assertEqual([str(error) for error in self.errors], ["no database"])
        self.assertEqual(len(self.events), 1)

    def test_answers_400_and_401_also_if_on_error_fails(self) -> None:
        def fail(_: Exception) -> None:
            raise RuntimeError

        self.receiver = Receiver(OTHER, self.events.append, on_error=fail)
        body, headers = delivery()
        self.assertEqual(self.receive(body, headers), (401, {"error": "SIGNATURE_INVALID"}))
        self.assertEqual(self.receive(body, {}), (400, {"error": "HEADERS_MALFORMED"}))

    def test_lets_a_second_attempt_wait_for_the_first(self) -> None:
        for fails in (False, True):
            with self.subTest(fails=fails):
                began, go_on = threading.Event(), threading.Event()

                def save(event: WebhookEvent) -> None:
                    began.set()
                    go_on.wait(10)
                    if fails:
                        raise RuntimeError

                self.receiver = Receiver(SECRET, save)
                answers: List[Any] = []
                threads = [
                    threading.Thread(target=lambda: answers.append(self.receive(*delivery()))) for _ in "12"
                ]
                threads[0].start()
                began.wait(10)
                threads[1].start()
                threads[1].join(0.1)
                self.assertEqual(answers, [])
                go_on.set()
                for thread in threads:
                    thread.join(10)
                expected = [500, 500] if fails else [200, 200]
                self.assertEqual([status for status, _ in answers], expected)
                if not fails:
                    self.assertEqual(sorted(body["processed"] for _, body in answers), [False, True])
