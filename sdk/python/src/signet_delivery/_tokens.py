"""Access tokens: requested once for all threads, renewed before they expire, and following the secret's rotation."""

from __future__ import annotations

import base64
import re
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence
from urllib.parse import quote_plus, urlencode

from ._http import Connections, Request
from ._runtime import LOG, RetryPolicy, Runtime, is_repeatable, with_retries
from .credentials import CredentialStore, StoredCredential, StoredSecret, read_successor
from .credentials import with_accepted, with_successor
from .errors import CredentialStoreError, SignetApiError, SignetTransportError

TOKEN_PATH = "/v1/auth/token"
_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# RFC 6750 section 2.1: an invalid header value would cause an error that shows it.
_B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")

# The renewal starts at a random point between these parts of a token's life, so that clients spread out.
_REFRESH_FROM = 0.7
_REFRESH_SPREAD = 0.15
# A token this close to its expiry is not returned: it could expire in transit. In seconds, or a part of its life.
_END_MARGIN = 30.0
_END_MARGIN_PART = 0.1
# Pause after a failed renewal, in seconds; the present token is valid meanwhile.
_REFRESH_AGAIN = 10.0
# Pause after a rejected credential, since the service counts failures. Doubles up to the maximum.
_REFUSAL_HOLD = 5.0
_REFUSAL_HOLD_MAX = 300.0


@dataclass(frozen=True)
class AccessToken:
    """A token, for calls outside this package."""

    value: str = field(repr=False)
    #: Granted scopes, separated by spaces.
    scope: str
    #: Unix seconds by this machine's clock.
    expires_at: float


@dataclass(frozen=True)
class ClientSecret:
    """A candidate for the token endpoint; without a secret, an assertion or the certificate authenticates."""

    client_id: str
    secret: Optional[str] = field(repr=False)


class CredentialKeeper:
    """Decides which secrets to present, in which order, and what to store from the answers."""

    def __init__(self, configured: Optional[ClientSecret], store: Optional[CredentialStore]) -> None:
        self._configured = configured
        self._store = store
        self._lock = threading.Lock()
        # The last content of the store that could be read.
        self._known: Optional[StoredCredential] = None
        # Why the store could not be read the last time.
        self._unreadable: Optional[Exception] = None
        # A stored successor that the service has rejected: no longer tried first.
        self._rejected_next: Optional[str] = None

    def candidates(self) -> List[ClientSecret]:
        """Returns the candidates, best first: the stored successor, the stored secret, the configured one."""
        stored = self._load()
        found: List[ClientSecret] = []
        if stored is not None:
            order = [stored.current.secret]
            if stored.next is not None:
                order.insert(1 if stored.next.secret == self._rejected_next else 0, stored.next.secret)
            found = [ClientSecret(stored.client_id, secret) for secret in order]
        configured = self._configured
        if configured is not None and all(configured.secret != each.secret for each in found):
            found.append(configured)
        if not found:
            raise self._missing()
        return found

    def _missing(self) -> CredentialStoreError:
        if self._unreadable is not None:
            return CredentialStoreError(f"there is no credential: {self._unreadable}")
        place = getattr(self._store, "place", None)
        where = "the store has none" if place is None else f"{place} does not exist"
        return CredentialStoreError(f"there is no credential: none is configured, and {where}")

    def rejected(self, candidate: ClientSecret) -> None:
        """Records that a candidate was rejected as invalid_client."""
        following = None if self._known is None else self._known.next
        if following is not None and candidate.secret == following.secret:
            self._rejected_next = candidate.secret

    def accepted(self, candidate: ClientSecret, successor: Optional[StoredSecret]) -> None:
        """Records that a candidate was accepted, with its successor if any. Never fails: there is a token already."""
        if candidate.secret is None:
            return
        try:
            with self._lock:
                self._save(candidate.client_id, candidate.secret, successor)
        except Exception as error:
            if successor is not None:
                LOG.warning(
                    "SUCCESSOR_NOT_STORED: the service has named this secret's successor and it cannot be stored;"
                    " the present one is kept, and ends when its overlap does: %s",
                    error,
                )

    def _load(self) -> Optional[StoredCredential]:
        if self._store is None:
            return None
        try:
            stored = self._store.load()
            # With a configured credential, that of another client does not count.
            foreign = (
                self._configured is not None
                and stored is not None
                and stored.client_id != self._configured.client_id
            )
            self._known = None if foreign else stored
            self._unreadable = None
        except Exception as error:
            self._unreadable = error
            LOG.warning("STORE_UNREADABLE: going on with what is known: %s", error)
        return self._known

    def _save(self, client_id: str, secret: str, successor: Optional[StoredSecret]) -> None:
        """Reads again right before writing: another process may have written since."""
        if self._store is None:
            if successor is not None:
                raise CredentialStoreError("no store is configured")
            return
        stored = self._store.load()
        ours = None
        if stored is not None and stored.client_id == client_id:
            ours = with_accepted(stored, secret)
        wanted = ours
        if successor is not None:
            if ours is not None and ours.next is not None and ours.next.secret == self._rejected_next:
                # The named successor replaces one that the service does not know.
                ours = StoredCredential(ours.client_id, ours.current)
            wanted = with_successor(ours, client_id, secret, successor)
        if wanted is not None and wanted != stored:
            self._store.save(wanted)
        following = None if wanted is None else wanted.next
        if following is None or following.secret != self._rejected_next:
            self._rejected_next = None


@dataclass
class _Held:
    token: AccessToken
    usable_until: float
    refresh_at: float


@dataclass(frozen=True)
class _Refusal:
    error: SignetApiError
    hold: float
    until: float


class TokenSource:
    """Tokens for one set of scopes."""

    def __init__(
        self,
        connections: Connections,
        keeper: CredentialKeeper,
        scopes: Sequence[str],
        assertion: Optional[Callable[[], str]],
        retry: RetryPolicy,
        runtime: Runtime,
    ) -> None:
        self._connections = connections
        self._keeper = keeper
        self._scope = " ".join(scopes)
        self._assertion = assertion
        self._retry = retry
        self._runtime = runtime
        self._lock = threading.Lock()
        self._held: Optional[_Held] = None
        self._flight: "Optional[Future[AccessToken]]" = None
        self._refusal: Optional[_Refusal] = None

    def token(self) -> AccessToken:
        """Returns a valid token. Only the first callers, and callers with an expired token, wait."""
        now = self._runtime.clock()
        with self._lock:
            held = self._usable(now)
            if held is not None:
                if now >= held.refresh_at and self._flight is None:
                    held.refresh_at = now + _REFRESH_AGAIN
                    threading.Thread(target=self._renew_early, name="signet-token", daemon=True).start()
                return held.token
        return self._renew(unless_usable=True)

    def _usable(self, now: float) -> Optional[_Held]:
        """Returns what is held if it can still be used. The caller holds the lock."""
        held = self._held
        return held if held is not None and now < held.usable_until else None

    def token_instead_of(self, refused: str) -> AccessToken:
        """Returns a token other than the rejected one; concurrent callers share the renewal."""
        with self._lock:
            if self._held is not None and self._held.token.value == refused:
                self._held = None
        return self.token()

    def _renew_early(self) -> None:
        try:
            self._renew()
        except Exception as error:
            LOG.warning("REFRESH_FAILED: the token could not be renewed yet: %s", error)

    def _renew(self, unless_usable: bool = False) -> AccessToken:
        mine: "Future[AccessToken]" = Future()
        now = self._runtime.clock()
        with self._lock:
            # Another thread may have renewed it since the caller looked.
            held = self._usable(now) if unless_usable else None
            if held is not None:
                return held.token
            flight = self._flight
            if flight is None:
                self._flight = mine
        if flight is not None:
            return flight.result()
        try:
            token = self._fly()
        except BaseException as error:
            with self._lock:
                self._flight = None
            interrupted = SignetTransportError("CONNECTION", "the token request was interrupted")
            mine.set_exception(error if isinstance(error, Exception) else interrupted)
            raise
        with self._lock:
            self._flight = None
        mine.set_result(token)
        return token

    def _fly(self) -> AccessToken:
        refusal = self._refusal
        if refusal is not None and self._runtime.clock() < refusal.until:
            raise refusal.error
        refused: Optional[SignetApiError] = None
        for candidate in self._keeper.candidates():
            try:
                return self._request(candidate)
            except SignetApiError as error:
                if error.code != "INVALID_CLIENT":
                    raise
                self._keeper.rejected(candidate)
                refused = error
        assert refused is not None
        hold = _REFUSAL_HOLD if refusal is None else min(refusal.hold * 2, _REFUSAL_HOLD_MAX)
        self._refusal = _Refusal(refused, hold, self._runtime.clock() + hold)
        raise refused

    def _request(self, candidate: ClientSecret) -> AccessToken:
        def ask(_attempt: int) -> "tuple[float, Any]":
            # Expiry counts from before the request, so that transit time is included.
            return self._runtime.clock(), self._connections.exchange(self._token_request(candidate))

        asked_at, answer = with_retries(ask, self._runtime, self._retry, is_repeatable)
        members: Dict[str, Any] = answer if isinstance(answer, dict) else {}
        value, lifetime = members.get("access_token"), members.get("expires_in")
        if not isinstance(value, str) or not _B64TOKEN.fullmatch(value):
            raise SignetTransportError("INVALID_ANSWER", "the token endpoint's answer holds no token")
        if isinstance(lifetime, bool) or not isinstance(lifetime, (int, float)) or not lifetime > 0:
            raise SignetTransportError("INVALID_ANSWER", "the token endpoint does not say how long its token lasts")
        self._keeper.accepted(candidate, read_successor(members.get("credential_rotation")))
        self._refusal = None
        scope = members.get("scope")
        token = AccessToken(value, scope if isinstance(scope, str) else "", asked_at + lifetime)
        held = _Held(
            token,
            usable_until=token.expires_at - min(_END_MARGIN, lifetime * _END_MARGIN_PART),
            refresh_at=asked_at + lifetime * (_REFRESH_FROM + _REFRESH_SPREAD * self._runtime.random()),
        )
        with self._lock:
            self._held = held
        return token

    def _token_request(self, candidate: ClientSecret) -> Request:
        form = {"grant_type": "client_credentials"}
        headers = {"content-type": "application/x-www-form-urlencoded"}
        confidential: List[str] = []
        if self._scope != "":
            form["scope"] = self._scope
        if candidate.secret is not None:
            # RFC 6749 section 2.3.1: both parts are encoded as in a form.
            pair = f"{quote_plus(candidate.client_id)}:{quote_plus(candidate.secret)}"
            basic = base64.b64encode(pair.encode()).decode()
            headers["authorization"] = f"Basic {basic}"
            confidential = [candidate.secret, basic]
        else:
            form["client_id"] = candidate.client_id
            if self._assertion is not None:
                # A new one each time: the service accepts an assertion once.
                assertion = self._assertion()
                form["client_assertion_type"] = _JWT_BEARER
                form["client_assertion"] = assertion
                confidential = [assertion]
        return Request("POST", TOKEN_PATH, headers, urlencode(form).encode(), confidential)
