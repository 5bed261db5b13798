"""The tenant's credentials, compliance log and portal."""

from __future__ import annotations

from typing import Dict, List, Optional, cast

from .. import models
from .._transport import Instant, PagedList, QueryValue, new_key, segment
from .resource import Resource, present

_CREDENTIALS = "/v1/credentials"
_COMPLIANCE = "/v1/compliance"


class Credentials(Resource):
    """The tenant's own credentials."""

    def create(
        self,
        credential: Optional[models.NewCredential] = None,
        *,
        idempotency_key: Optional[str] = None,
    ) -> models.CreatedCredential:
        """Creates a credential, or replaces one. The answer shows its secret once."""
        answer = self._transport.post(_CREDENTIALS, credential or {}, key=new_key(idempotency_key))
        return cast(models.CreatedCredential, answer)

    def list(self, *, limit: Optional[int] = None) -> PagedList[models.Credential]:
        return PagedList(self._transport, _CREDENTIALS, {"limit": limit})

    def get(self, id: str) -> models.CredentialDetails:
        return cast(models.CredentialDetails, self._transport.get(f"{_CREDENTIALS}/{segment(id)}"))

    def revoke(self, id: str, *, reason: Optional[str] = None) -> models.Revocation:
        """Ends a credential and all its tokens permanently, everywhere. Needs ``credentials:revoke``.

        :param reason: goes into the compliance log, so no personal data
        """
        path = f"{_CREDENTIALS}/{segment(id)}/revoke"
        return cast(models.Revocation, self._transport.post(path, present(reason=reason), repeatable=True))

    def revoke_leaked(
        self, target: str, *, reason: Optional[str] = None, idempotency_key: Optional[str] = None
    ) -> models.LeakRevocation:
        """Finds and revokes what leaked: a client id, a secret, a whole token, a certificate's SHA-256."""
        body = present(target=target, reason=reason)
        answer = self._transport.post("/v1/revocations", body, key=new_key(idempotency_key))
        return cast(models.LeakRevocation, answer)

    def create_signing_secret(
        self, id: str, *, overlap_seconds: Optional[int] = None, idempotency_key: Optional[str] = None
    ) -> models.CreatedSigningSecret:
        """Creates the credential's signing secret, or its next version."""
        body = present(overlap_seconds=overlap_seconds)
        answer = self._transport.post(_signing(id), body, key=new_key(idempotency_key))
        return cast(models.CreatedSigningSecret, answer)

    def signing_secrets(self, id: str) -> List[models.SigningSecret]:
        """Lists the versions of the signing secret, newest first."""
        return cast(List[models.SigningSecret], self._transport.get(_signing(id))["data"])

    def revoke_signing_secrets(
        self, id: str, *, version: Optional[int] = None, reason: Optional[str] = None
    ) -> List[models.SigningSecret]:
        """Ends one version or all at once and erases them. Needs ``credentials:revoke``."""
        body = present(version=version, reason=reason)
        answer = self._transport.post(f"{_signing(id)}/revoke", body, repeatable=True)
        return cast(List[models.SigningSecret], answer["data"])

    def require_signature(self, id: str, required: bool) -> models.Credential:
        """Sets whether the credential must sign what it publishes."""
        body = {"signature_required": required}
        return cast(models.Credential, self._transport.patch(f"{_CREDENTIALS}/{segment(id)}", body))


def _signing(id: str) -> str:
    return f"{_CREDENTIALS}/{segment(id)}/signing-secret"


class Compliance(Resource):
    """The tenant's entries of the compliance log."""

    def list(
        self,
        *,
        type: Optional[str] = None,
        from_: Optional[Instant] = None,
        to: Optional[Instant] = None,
        limit: Optional[int] = None,
    ) -> PagedList[models.ComplianceEntry]:
        """Lists entries, newest first."""
        query: Dict[str, QueryValue] = {"type": type, "from": from_, "to": to, "limit": limit}
        return PagedList(self._transport, f"{_COMPLIANCE}/entries", query)

    def get(self, index: int) -> models.ComplianceEntryWithBytes:
        return cast(
            models.ComplianceEntryWithBytes, self._transport.get(f"{_COMPLIANCE}/entries/{int(index)}")
        )

    def checkpoint(self) -> models.ComplianceCheckpoint:
        """Returns the newest checkpoint."""
        return cast(models.ComplianceCheckpoint, self._transport.get(f"{_COMPLIANCE}/checkpoint"))


class Portal(Resource):
    """The tenant's portal: sign-in links."""

    def create_link(
        self, link: Optional[models.NewPortalLink] = None, *, idempotency_key: Optional[str] = None
    ) -> models.PortalLink:
        """Creates a one-time link that signs a browser in; needs the scope ``portal:sign_in``."""
        answer = self._transport.post("/v1/portal/links", link or {}, key=new_key(idempotency_key))
        return cast(models.PortalLink, answer)
