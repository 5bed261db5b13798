"""Verifies Signet's webhooks with nothing but Python's standard library (3.9 or later)."""

import base64
import binascii
import hashlib
import hmac
import json
import math
import re
import time
from decimal import Decimal


class Refused(Exception):
    """The payload must not be used. Answer 400 for HEADERS_MALFORMED, else 401."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


_SHA256 = re.compile(r"sha256=[0-9a-f]{64}")
_V1 = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_OTHER_VERSION = re.compile(r"v(?!1,)[0-9a-z]+,[\x21-\x7e]+")
_TIMESTAMP = re.compile(r"0|[1-9][0-9]{0,11}")
_ID = re.compile(r"[\x21-\x2d\x2f-\x7e]{1,256}")
_SIGNATURES = re.compile(r"[\x20-\x7e]{1,4096}")
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{32,88}={0,2}")


def _key(secret):
    """The key of v1 signatures. A mangled secret would make signatures that anybody can forge."""
    text = secret[len("whsec_"):]
    try:
        key = base64.b64decode(text, validate=True) if _SECRET.fullmatch(secret) else b""
    except binascii.Error:
        key = b""
    if not 24 <= len(key) <= 64 or base64.b64encode(key).decode() != text:
        raise ValueError("a secret is whsec_ followed by the base64 of 24 to 64 bytes")
    return key


def _header(headers, name, pattern, required=False):
    """The one value of a header in its one spelling; None when it was not sent."""
    values = [value for key, value in headers if key.lower() == name.lower()]
    if not values and not required:
        return None
    if len(values) != 1 or not pattern.fullmatch(values[0]):
        raise Refused("HEADERS_MALFORMED")
    return values[0]


def _standard(headers):
    """(id, timestamp, v1 signatures) of the Standard Webhooks headers; None without webhook-signature."""
    signatures = _header(headers, "webhook-signature", _SIGNATURES)
    if signatures is None:
        return None
    entries = signatures.split(" ")
    v1 = [entry for entry in entries if _V1.fullmatch(entry)]
    others = [entry for entry in entries if _OTHER_VERSION.fullmatch(entry)]
    if len(entries) > 16 or len(v1) + len(others) != len(entries):
        raise Refused("HEADERS_MALFORMED")
    webhook_id = _header(headers, "webhook-id", _ID, required=True)
    return webhook_id, _header(headers, "webhook-timestamp", _TIMESTAMP, required=True), v1


def _scheme(secrets, body, sha256, standard):
    """Which signature matches one of the secrets: v1 covers more and goes first."""
    found = None
    for secret in secrets:
        key = _key(secret)
        if standard is not None:
            signed = f"{standard[0]}.{standard[1]}.".encode() + body
            mac = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
            if any(hmac.compare_digest(f"v1,{mac}", entry) for entry in standard[2]):
                return "v1"
        mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        if any(hmac.compare_digest(f"sha256={mac}", value) for value in sha256):
            found = "sha256"
    return found


def _no_constant(name):
    raise ValueError(f"{name} is no JSON")


def _integer(text):
    # Python refuses to convert more than 4,300 digits.
    return int(text) if len(text) <= 4_300 else Decimal(text)


def _real(text):
    value = float(text)
    try:
        # 1e400 is no float.
        return value if math.isfinite(value) else Decimal(text)
    except ArithmeticError:
        return value


def _parse(body):
    try:
        return json.loads(
            body.decode("utf-8-sig"), parse_int=_integer, parse_float=_real, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        return None


def verify(body, headers, secrets, now=None, tolerance=300, future=60):
    """Checks one request.

    body: the raw bytes, before any parsing. headers: (name, value) pairs, repeated headers repeated.
    secrets: the endpoint's secret; during a rotation the old and the new one. now: Unix seconds.
    Returns (id, scheme, payload). Drop repetitions by the id; it is None when the sender signed none. The payload is None
    when the body is not JSON: answer 400 then. Numbers that int or float cannot hold are Decimals.
    Raises Refused, or ValueError for secrets that are none.
    """
    if not secrets:
        raise ValueError("verify needs at least one secret")
    headers = list(headers)
    signature = _header(headers, "X-Service-Signature-256", _SHA256)
    alternative = _header(headers, "X-Service-Signature-256-Alt", _SHA256)
    timestamp = _header(headers, "X-Service-Timestamp", _TIMESTAMP)
    event_id = _header(headers, "X-Service-Event-Id", _ID)
    standard = _standard(headers)
    if signature is None and (alternative is not None or standard is None):
        raise Refused("HEADERS_MALFORMED")
    if signature is not None and timestamp is None:
        raise Refused("HEADERS_MALFORMED")
    sha256 = [value for value in (signature, alternative) if value is not None]
    scheme = _scheme(secrets, body, sha256, standard)
    if scheme is None:
        raise Refused("SIGNATURE_INVALID")

    signed_at = int(timestamp if timestamp is not None else standard[1])
    age = int(time.time() if now is None else now) - signed_at
    if age > tolerance:
        raise Refused("PAYLOAD_EXPIRED")
    if -age > future:
        raise Refused("TIMESTAMP_MISMATCH")
    payload = _parse(body)
    members = payload if isinstance(payload, dict) else {}
    # sha256 covers the body alone: the time must stand in there too, or an old delivery passes for a new one.
    sent_at = members.get("sent_at", None if scheme == "sha256" else signed_at)
    if isinstance(sent_at, bool) or sent_at != signed_at:
        raise Refused("TIMESTAMP_MISMATCH")
    if standard is not None and int(standard[1]) != signed_at:
        raise Refused("TIMESTAMP_MISMATCH")

    body_id = members.get("id") if isinstance(members.get("id"), str) else None
    verified_id = standard[0] if scheme == "v1" else body_id
    claims = [claim for claim in (standard and standard[0], event_id) if claim is not None]
    if verified_id is not None and any(claim != verified_id for claim in claims):
        raise Refused("ID_MISMATCH")
    return verified_id, scheme, payload
