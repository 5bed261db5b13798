"""Verifies signed webhooks.

The service signs each request three ways: ``sha256=`` over the body, ``v1`` (Standard Webhooks) over id, time and
body, and, if the endpoint uses Ed25519, ``v1a`` over the same.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Literal, NoReturn, Optional, Protocol
from typing import Pattern, Sequence, Tuple, Union, cast

from ._json import loads
from .errors import VerificationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Scheme = Literal["sha256", "v1", "v1a"]


class _WithItems(Protocol):
    def items(self) -> Iterable[Tuple[Any, Any]]: ...


#: An object with ``items()``, such as the headers of Flask, Django, Starlette and http.server, or an environment of WSGI;
#: or (name, value) pairs, such as those of an ASGI scope.
Headers = Union[_WithItems, Iterable[Tuple[Any, Any]]]
#: One secret ``whsec_…`` or public key ``whpk_…``; during a rotation the old and the new one.
Secrets = Union[str, Sequence[str]]

_SHA256 = re.compile(r"sha256=[0-9a-f]{64}")
_V1 = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_V1A = re.compile(r"v1a,[A-Za-z0-9+/]{86}==")
# Standard Webhooks tells receivers to skip the versions that they do not know.
_OTHER_VERSION = re.compile(r"v(?!1,)[0-9a-z]+,[\x21-\x7e]+")
# One spelling per number: no sign, no leading zero.
_TIMESTAMP = re.compile(r"0|[1-9][0-9]{0,11}")
# Printable, without the dot that separates the signed parts.
_ID = re.compile(r"[\x21-\x2d\x2f-\x7e]{1,256}")
_SIGNATURES = re.compile(r"[\x20-\x7e]{1,4096}")
_MAX_SIGNATURES = 16
_NULL = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*null[ \t\r\n]*")
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{32,88}={0,2}")
_PUBLIC_KEY = re.compile(r"whpk_[A-Za-z0-9+/]{43}=")
# The prime of Curve25519, and the y coordinates of its points of order 1, 2, 4 and 8. As keys, they have signatures that
# hold for any text.
_PRIME = 2**255 - 19
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = (0, 1, _PRIME - 1, _EIGHTH, _PRIME - _EIGHTH)


@dataclass(frozen=True)
class VerifiedPayload:
    """A genuine and fresh payload. Drop duplicates by ``id``."""

    #: The signed id of the event; None if the sender signed none.
    id: Optional[str]
    #: When it was signed, in Unix seconds.
    timestamp: int
    #: The signature that matched.
    scheme: Scheme
    #: The parsed body; None if it is not JSON. A number that ``int`` or ``float`` cannot hold is a ``decimal.Decimal``.
    payload: Any
    #: The received bytes.
    body: bytes


@dataclass(frozen=True)
class _Standard:
    id: str
    timestamp: str
    v1: Sequence[str]
    v1a: Sequence[str]

    def signed(self, body: bytes) -> bytes:
        return f"{self.id}.{self.timestamp}.".encode() + body


@dataclass(frozen=True)
class _SignedHeaders:
    sha256: Sequence[str]
    standard: Optional[_Standard]
    timestamp: int
    event_id: Optional[str]


def header_of(headers: Headers, name: str) -> Optional[str]:
    """Returns the first value of a header; None without one."""
    return next(iter(_Reader(headers).values(name)), None)


def _as_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _from_environ(pairs: List[Tuple[Any, Any]]) -> Iterable[Tuple[Any, Any]]:
    """Returns the headers of a WSGI environment (PEP 3333); other pairs as they are."""
    if not any(name == "wsgi.version" for name, _ in pairs):
        return pairs
    names = {name: name[len("HTTP_") :] for name, _ in pairs if name.startswith("HTTP_")}
    names["CONTENT_LENGTH"] = "CONTENT_LENGTH"
    return [(names[name].replace("_", "-"), value) for name, value in pairs if name in names]


class _Reader:
    """Reads headers, each at most once and in exactly one spelling."""

    def __init__(self, headers: Headers) -> None:
        items: Any = getattr(headers, "items", None)
        pairs = list(items() if callable(items) else cast(Iterable[Tuple[Any, Any]], headers))
        self._values: Dict[str, List[str]] = {}
        for name, value in _from_environ(pairs):
            values = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
            self._values.setdefault(_as_text(name).lower(), []).extend(map(_as_text, values))

    def values(self, name: str) -> List[str]:
        return self._values.get(name.lower(), [])

    def optional(self, name: str, pattern: Pattern[str]) -> Optional[str]:
        values = self.values(name)
        if not values:
            return None
        # A server may join repeated headers by a comma, which no pattern allows.
        if len(values) > 1 or not pattern.fullmatch(values[0]):
            _malformed(name)
        return values[0]

    def required(self, name: str, pattern: Pattern[str]) -> str:
        value = self.optional(name, pattern)
        return _malformed(name) if value is None else value

    def standard(self) -> Optional[_Standard]:
        signatures = self.optional("webhook-signature", _SIGNATURES)
        if signatures is None:
            return None
        entries = signatures.split(" ")
        v1 = [entry for entry in entries if _V1.fullmatch(entry)]
        others = [entry for entry in entries if _OTHER_VERSION.fullmatch(entry)]
        if len(entries) > _MAX_SIGNATURES or len(v1) + len(others) != len(entries):
            _malformed("webhook-signature")
        return _Standard(
            self.required("webhook-id", _ID),
            self.required("webhook-timestamp", _TIMESTAMP),
            v1,
            [entry for entry in others if _V1A.fullmatch(entry)],
        )

    def signed(self, brand: str) -> _SignedHeaders:
        signature = self.optional(f"X-{brand}-Signature-256", _SHA256)
        alternative = self.optional(f"X-{brand}-Signature-256-Alt", _SHA256)
        timestamp = self.optional(f"X-{brand}-Timestamp", _TIMESTAMP)
        standard = self.standard()
        if signature is None and (alternative is not None or standard is None):
            _malformed(f"X-{brand}-Signature-256")
        if timestamp is None:
            if signature is not None or standard is None:
                _malformed(f"X-{brand}-Timestamp")
            timestamp = standard.timestamp
        sha256 = [value for value in (signature, alternative) if value is not None]
        return _SignedHeaders(sha256, standard, int(timestamp), self.optional(f"X-{brand}-Event-Id", _ID))


def _malformed(name: str) -> NoReturn:
    raise VerificationError("HEADERS_MALFORMED", f"the header {name} is missing, repeated or malformed")


def _decode(text: str) -> bytes:
    """Decodes base64; empty if it has another spelling, because then its bits would be ambiguous."""
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
    return decoded if base64.b64encode(decoded).decode() == text else b""


def _secret_key(secret: str) -> bytes:
    """Returns the key of ``v1``. An empty or mangled one would make signatures that anybody can forge."""
    key = _decode(secret[len("whsec_") :]) if _SECRET.fullmatch(secret) else b""
    if not 24 <= len(key) <= 64:
        raise ValueError("a secret is whsec_ followed by the base64 of 24 to 64 bytes")
    return key


def _sha256(secret: str, body: bytes) -> str:
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


def _v1(key: bytes, signed: bytes) -> str:
    return f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}"


def _read_public_key(public_key: str) -> "Ed25519PublicKey":
    raw = _decode(public_key[len("whpk_") :]) if _PUBLIC_KEY.fullmatch(public_key) else b""
    if len(raw) != 32:
        raise ValueError("a public key is whpk_ followed by the base64 of 32 bytes")
    # Without the highest bit, which is the sign of x (RFC 8032 section 5.1.2).
    y = int.from_bytes(raw, "little") % 2**255
    if y >= _PRIME or y in _SMALL_ORDER:
        raise ValueError("the public key is a point of small order, or not in its normal form")
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise ImportError("public keys need Ed25519: pip install 'signet-delivery[crypto]'") from error
    return Ed25519PublicKey.from_public_bytes(raw)


def _read_secret(given: Any, name: str) -> str:
    if given is None:
        raise ValueError(f"{name} is not set")
    if not isinstance(given, str):
        raise ValueError(f"{name} is not a str")
    # A file ends with a newline, and an editor may begin it with a byte order mark.
    secret = given.strip().strip("\ufeff").strip()
    if secret == "":
        raise ValueError(f"{name} is empty")
    if not secret.startswith(("whsec_", "whpk_")):
        raise ValueError(f"{name} begins neither with whsec_ (a secret) nor with whpk_ (a public key)")
    try:
        check: Callable[[str], object] = _read_public_key if secret.startswith("whpk_") else _secret_key
        check(secret)
    except ValueError as error:
        raise ValueError(f"{name} is malformed: {error}") from None
    return secret


def read_secrets(given: Any) -> List[str]:
    """Checks configured secrets and public keys, and returns them without surrounding white space.

    :raises ValueError: which names the wrong one, without its text
    :raises ImportError: for a public key without the package cryptography
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        return [_read_secret(given, "secrets")]
    read = [_read_secret(one, f"secrets[{index}]") for index, one in enumerate(given)]
    if not read:
        raise ValueError("secrets is empty: a receiver needs at least one secret")
    return read


def _matches_public_key(public_key: str, body: bytes, standard: Optional[_Standard]) -> bool:
    key = _read_public_key(public_key)
    if standard is None:
        return False
    from cryptography.exceptions import InvalidSignature

    for value in standard.v1a:
        try:
            key.verify(base64.b64decode(value[len("v1a,") :]), standard.signed(body))
            return True
        except InvalidSignature:
            pass
    return False


def _matching_scheme(headers: _SignedHeaders, secrets: Sequence[str], body: bytes) -> Optional[Scheme]:
    standard = headers.standard
    found: Optional[Scheme] = None
    for secret in secrets:
        if secret.startswith("whpk_"):
            if _matches_public_key(secret, body, standard):
                return "v1a"
            continue
        key = _secret_key(secret)
        if standard is not None:
            expected = _v1(key, standard.signed(body))
            # v1 also covers time and id, so it is stronger if both match.
            if any(hmac.compare_digest(expected, value) for value in standard.v1):
                return "v1"
        expected = _sha256(secret, body)
        if any(hmac.compare_digest(expected, value) for value in headers.sha256):
            found = "sha256"
    return found


def _parse(body: bytes) -> Any:
    try:
        # A parser may ignore a byte order mark (RFC 8259 section 8.1).
        return loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _check_times(headers: _SignedHeaders, scheme: Scheme, members: Dict[str, Any]) -> None:
    """All times must agree. ``sha256=`` covers only the body, so there the body must have the time."""
    signed_at = headers.timestamp
    sent_at = members.get("sent_at", None if scheme == "sha256" else signed_at)
    standard = headers.standard
    # True equals 1 in Python.
    if isinstance(sent_at, bool) or sent_at != signed_at or (standard and int(standard.timestamp) != signed_at):
        raise VerificationError("TIMESTAMP_MISMATCH", "the timestamp differs from sent_at of the signed body")


def _verified_id(headers: _SignedHeaders, scheme: Scheme, members: Dict[str, Any]) -> Optional[str]:
    """Returns the signed id. A header that differs was forged to get a duplicate past the receiver."""
    standard_id = None if headers.standard is None else headers.standard.id
    in_body = members.get("id")
    verified = standard_id if scheme != "sha256" else in_body if isinstance(in_body, str) else None
    claims = [claim for claim in (standard_id, headers.event_id) if claim is not None]
    if verified is not None and any(claim != verified for claim in claims):
        raise VerificationError("ID_MISMATCH", "an id header differs from the signed id")
    return verified


def verify(
    body: bytes,
    headers: Headers,
    secrets: Secrets,
    *,
    now: Optional[float] = None,
    tolerance: float = 300,
    future: float = 60,
    header_brand: str = "Service",
) -> VerifiedPayload:
    """Verifies a request and returns its authenticated parts.

    It is then genuine and fresh; drop duplicates by ``id``. Checks, in this order: each header once and in its
    format; a signature by one of the secrets, in constant time; age; future; ``sent_at``; id.

    :param body: the raw bytes, before any parsing
    :param now: Unix seconds; the present time by default
    :param tolerance: maximum age, in seconds
    :param future: how far the sender's clock may be ahead, in seconds
    :param header_brand: the word for "Service" in the names of the headers
    :raises VerificationError: with a stable ``code``; the payload must not be used
    :raises ValueError: without a secret, or for one that is malformed
    :raises ImportError: for a public key without the package cryptography
    """
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError("body is the raw request body as bytes, before any parsing")
    body = bytes(body)
    known = read_secrets(secrets)
    signed = _Reader(headers).signed(header_brand)
    scheme = _matching_scheme(signed, known, body)
    if scheme is None:
        raise VerificationError("SIGNATURE_INVALID", "no signature matches any of the secrets")
    age = int(time.time() if now is None else now) - signed.timestamp
    if age > tolerance:
        raise VerificationError("PAYLOAD_EXPIRED", "the payload is older than the tolerance")
    if -age > future:
        raise VerificationError("TIMESTAMP_MISMATCH", "the timestamp lies in the future")
    payload = _parse(body)
    members = payload if isinstance(payload, dict) else {}
    _check_times(signed, scheme, members)
    return VerifiedPayload(_verified_id(signed, scheme, members), signed.timestamp, scheme, payload, body)


def verify_parsed(body: bytes, headers: Headers, secrets: Secrets, **options: Any) -> VerifiedPayload:
    """Verifies a request whose payload must be JSON: no handler gets one that was not parsed.

    :param options: those of :func:`verify`
    :raises VerificationError: also for a body that is not JSON
    """
    verified = verify(body, headers, secrets, **options)
    if verified.payload is None and not _NULL.fullmatch(verified.body):
        raise VerificationError("PAYLOAD_MALFORMED", "the signed body is not JSON")
    return verified


def sign_delivery(secret: str, body: bytes, *, id: str, timestamp: int) -> Dict[str, str]:
    """Returns the headers of a delivery, as the service sends them: for tests of your receiver.

    :raises ValueError: for a malformed secret or id, or a timestamp that is not in whole seconds
    """
    if not _ID.fullmatch(id) or not _TIMESTAMP.fullmatch(str(timestamp)):
        raise ValueError("an id is printable and has no dot; a timestamp is in whole Unix seconds")
    standard = _Standard(id, str(timestamp), [], [])
    return {
        "X-Service-Signature-256": _sha256(secret, body),
        "X-Service-Timestamp": str(timestamp),
        "X-Service-Event-Id": id,
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": _v1(_secret_key(secret), standard.signed(body)),
    }
