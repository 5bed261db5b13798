"""The client of the service for a tenant's program."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from ._http import Connections, TlsFiles, read_base_url
from ._runtime import RetryPolicy, Runtime, check_function
from ._tokens import TOKEN_PATH, AccessToken, ClientSecret, CredentialKeeper, TokenSource
from ._transport import Transport
from .credentials import CredentialStore
from .resources.account import Compliance, Credentials, Portal
from .resources.deliveries import DeadLetters, Deliveries, Replays
from .resources.endpoints import Endpoints
from .resources.events import Events, EventTypes
from .resources.streams import Streams


def _text(name: str, value: Optional[str]) -> Optional[str]:
    """Returns a text without what surrounds it in a file: a newline, a byte order mark."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a str")
    read = value.strip().strip("\ufeff").strip()
    if read == "":
        raise ValueError(f"{name} is empty")
    return read


class SignetClient:
    """A client of one tenant. Create one and keep it: it holds the token and the connections. Threads may share it.

    >>> signet = SignetClient("https://api.example.com", store=FileCredentialStore("/var/lib/app/credential.json"))
    >>> signet.events.publish({"type": "inference.completed", "data": {"run": 7}})
    """

    def __init__(
        self,
        base_url: str,
        *,
        client_id: Optional[str] = None,
        client_secret: Optional[str] = None,
        client_assertion: Optional[Callable[[str], str]] = None,
        store: Optional[CredentialStore] = None,
        scopes: Sequence[str] = (),
        tls: Optional[TlsFiles] = None,
        region_urls: Sequence[str] = (),
        retry: RetryPolicy = RetryPolicy(),
        timeout: float = 30.0,
        allow_plain_http: bool = False,
        runtime: Runtime = Runtime(),
    ) -> None:
        """Creates a client.

        :param client_id: absent where the store holds it. White space around it and the secret is ignored
        :param client_secret: absent if the store holds it, or the certificate or an assertion authenticates
        :param client_assertion: returns a new assertion (RFC 7523) for the address of the token endpoint
        :param store: keeps a rotated secret. Without it, a successor is never used, and the secret ends with its
            overlap
        :param scopes: of the tokens; all of the principal's by default
        :param tls: mutual TLS
        :param region_urls: base URLs of other regions' APIs. An answer 421 leads to these and ``base_url`` only, because
            the token goes along
        :param timeout: of one request with its answer, in seconds
        :param allow_plain_http: allows unencrypted secrets and tokens to other machines
        :param runtime: time and randomness, for tests
        :raises ValueError: for arguments that are wrong or contradictory
        :raises OSError: for certificates that cannot be read
        """
        if client_id is None and store is None:
            raise ValueError("client_id or a store that holds the credential is needed")
        if isinstance(scopes, str) or isinstance(region_urls, str):
            raise ValueError("scopes and region_urls are lists of texts")
        address, *regions = (read_base_url(url, allow_plain_http) for url in (base_url, *region_urls))
        self._connections = Connections(address, tls, timeout, runtime)
        apis = [self._connections, *(Connections(region, tls, timeout, runtime) for region in regions)]
        for name in ("load", "save"):
            if store is not None:
                check_function(f"store.{name}", getattr(store, name, None))
        if client_assertion is not None:
            check_function("client_assertion", client_assertion)
        client_id, client_secret = _text("client_id", client_id), _text("client_secret", client_secret)
        configured = None if client_id is None else ClientSecret(client_id, client_secret)
        assertion = None if client_assertion is None else (lambda: client_assertion(address + TOKEN_PATH))
        keeper = CredentialKeeper(configured, store)
        self._source = TokenSource(self._connections, keeper, scopes, assertion, retry, runtime)
        self._transport = transport = Transport(apis, self._source, retry, runtime)
        self.endpoints = Endpoints(transport)
        self.event_types = EventTypes(transport)
        self.events = Events(transport)
        self.deliveries = Deliveries(transport)
        self.dead_letters = DeadLetters(transport)
        self.replays = Replays(transport)
        self.credentials = Credentials(transport)
        self.compliance = Compliance(transport)
        self.streams = Streams(transport)
        self.portal = Portal(transport)

    def access_token(self) -> AccessToken:
        """Returns a token for calls outside this package, for instance to the data plane."""
        return self._source.token()

    def access_token_instead_of(self, refused: str) -> AccessToken:
        """Returns a token to replace one that a resource rejected as expired, revoked or bound elsewhere."""
        return self._source.token_instead_of(refused)

    def close(self) -> None:
        """Closes idle connections. The client stays usable."""
        self._transport.close()
