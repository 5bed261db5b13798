"""private_key_jwt (RFC 7523 section 2.2): the client authenticates with a key that never leaves it."""

from __future__ import annotations

import base64
import json
import time
import uuid
from typing import Any, Callable, Dict, Optional, Tuple, Union

# Long enough for a request and some difference of the clocks, in seconds.
_LIFETIME = 60


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _signer(key: Union[str, bytes]) -> Tuple[str, Callable[[bytes], bytes]]:
    """Returns the algorithm of a key and its signature."""
    try:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise ImportError("assertions need a package: pip install 'signet-delivery[crypto]'") from error
    private = load_pem_private_key(key.encode() if isinstance(key, str) else key, None)
    if isinstance(private, ec.EllipticCurvePrivateKey) and isinstance(private.curve, ec.SECP256R1):
        elliptic = private

        def sign(data: bytes) -> bytes:
            # RFC 7518 section 3.4: two concatenated numbers, not DER.
            numbers = decode_dss_signature(elliptic.sign(data, ec.ECDSA(hashes.SHA256())))
            return b"".join(number.to_bytes(32, "big") for number in numbers)

        return "ES256", sign
    if isinstance(private, rsa.RSAPrivateKey):
        known = private
        return "RS256", lambda data: known.sign(data, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(private, ed25519.Ed25519PrivateKey):
        return "EdDSA", private.sign
    raise ValueError("the key must be P-256, RSA or Ed25519")


def private_key_assertion(
    client_id: str,
    key: Union[str, bytes],
    kid: Optional[str] = None,
    clock: Callable[[], float] = time.time,
) -> Callable[[str], str]:
    """Returns a function for ``client_assertion`` of :class:`SignetClient`.

    :param key: an unencrypted private key in PEM: P-256 (ES256), RSA (RS256) or Ed25519
    :param kid: names the key in the client's key set
    :raises ValueError: for an invalid key, or one of another kind
    :raises ImportError: without the package cryptography
    """
    algorithm, sign = _signer(key)

    def assertion(audience: str) -> str:
        now = int(clock())
        header = {"alg": algorithm, **({} if kid is None else {"kid": kid})}
        claims: Dict[str, Any] = {
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "jti": str(uuid.uuid4()),
            "iat": now,
            "exp": now + _LIFETIME,
        }
        signed = ".".join(_encode(json.dumps(part).encode()) for part in (header, claims))
        return f"{signed}.{_encode(sign(signed.encode()))}"

    return assertion
