"""Client of Signet, and receiver of its signed webhooks."""

from ._http import TlsFiles
from ._runtime import RetryPolicy
from ._tokens import AccessToken
from ._transport import Page, PagedList
from ._version import __version__
from .assertion import private_key_assertion
from .client import SignetClient
from .credentials import CredentialStore, FileCredentialStore, StoredCredential, StoredSecret
from .credentials import parse_credential, serialize_credential
from .errors import CredentialStoreError, FieldProblem, SignetApiError, SignetError, SignetTransportError
from .errors import VerificationError
from .receiver import MemoryReplayStore, Receiver, ReplayStore, WebhookAnswer, WebhookEvent
from .verification import VerifiedPayload, sign_delivery, verify

__all__ = [
    "AccessToken",
    "CredentialStore",
    "CredentialStoreError",
    "FieldProblem",
    "FileCredentialStore",
    "MemoryReplayStore",
    "Page",
    "PagedList",
    "Receiver",
    "ReplayStore",
    "RetryPolicy",
    "SignetApiError",
    "SignetClient",
    "SignetError",
    "SignetTransportError",
    "StoredCredential",
    "StoredSecret",
    "TlsFiles",
    "VerificationError",
    "VerifiedPayload",
    "WebhookAnswer",
    "WebhookEvent",
    "__version__",
    "parse_credential",
    "private_key_assertion",
    "serialize_credential",
    "sign_delivery",
    "verify",
]
