"""Verifies Signet's access tokens with PyJWT: docs/verify-access-tokens.md."""

import base64
import json
import os
import sys

# region verify
import hashlib

import jwt


class AccessTokens:
    def __init__(self, issuer, audience):
        self._issuer, self._audience = issuer, audience
        # Reads the key set every five minutes, and for an unknown key id.
        self._keys = jwt.PyJWKClient(f"{issuer}/.well-known/jwks.json", lifespan=300)

    def verify(self, token, certificate=None):
        """Returns the claims; `certificate` is the client's, in DER. Raises jwt.PyJWTError."""
        if jwt.get_unverified_header(token).get("typ") != "at+jwt":
            raise jwt.InvalidTokenError("this is no access token")
        claims = jwt.decode(
            token,
            self._keys.get_signing_key_from_jwt(token),
            algorithms=["ES256"],
            issuer=self._issuer,
            audience=self._audience,
            options={"require": ["iss", "aud", "exp", "iat", "sub", "client_id", "jti"]},
        )
        bound = claims.get("cnf", {}).get("x5t#S256")
        if bound is not None and bound != _thumbprint(certificate):
            raise jwt.InvalidTokenError("the token belongs to another certificate")
        return claims


def _thumbprint(certificate):
    digest = hashlib.sha256(certificate or b"").digest()
    return jwt.utils.base64url_encode(digest).decode()
# endregion


if __name__ == "__main__":
    tokens = AccessTokens(os.environ["ISSUER"], os.environ["AUDIENCE"])
    for line in sys.stdin:
        token, _, certificate = line.strip().partition(" ")
        try:
            print(json.dumps({"sub": tokens.verify(token, base64.b64decode(certificate))["sub"]}), flush=True)
        except jwt.PyJWTError as error:
            print(json.dumps({"refused": str(error)}), flush=True)
