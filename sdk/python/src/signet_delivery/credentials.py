"""Durable storage of a credential, and the succession of its secrets.

The service names a due successor in the token answer, the same one for every use of its predecessor, and keeps the
predecessor until the successor was used. The only way to be locked out is to use a successor and then lose it: it is
used only once it is stored, and no write ever puts an older version over a newer one.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import stat
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Protocol, Union

from .errors import CredentialStoreError

_LOG = logging.getLogger("signet_delivery")
# An older temporary file was left by a killed process.
_LEFTOVER_SECONDS = 60


@dataclass(frozen=True)
class StoredSecret:
    """A secret; the version is None while unknown."""

    secret: str = field(repr=False)
    version: Optional[int]


@dataclass(frozen=True)
class StoredCredential:
    """The content of a store."""

    client_id: str
    #: Known to work.
    current: StoredSecret
    #: A successor that is stored, and perhaps used already.
    next: Optional[StoredSecret] = None


class CredentialStore(Protocol):
    """A durable store for one credential: a file, a secret manager. Several processes may share it."""

    def load(self) -> Optional[StoredCredential]:
        """Returns the credential; None if there is none. It is called before every token request."""
        ...

    def save(self, credential: StoredCredential) -> None:
        """Replaces it atomically, and returns once it would survive a power failure.

        It must raise otherwise: then the successor is not used, and the current secret keeps working.
        """
        ...


def read_secret(value: Any) -> Optional[StoredSecret]:
    """Reads a secret from answers and stores: ``client_secret``, and ``version`` if present."""
    secret = value.get("client_secret") if isinstance(value, dict) else None
    if not isinstance(secret, str) or secret == "":
        return None
    version = value.get("version")
    return StoredSecret(secret, version if isinstance(version, int) and not isinstance(version, bool) else None)


def read_successor(value: Any) -> Optional[StoredSecret]:
    """Reads a secret that must have a version."""
    found = read_secret(value)
    return None if found is None or found.version is None else found


def _is_ahead(stored: StoredCredential, version: int) -> bool:
    return any(
        each is not None and each.version is not None and each.version >= version
        for each in (stored.current, stored.next)
    )


def with_successor(
    stored: Optional[StoredCredential], client_id: str, presented: str, successor: StoredSecret
) -> StoredCredential:
    """Returns what to store after a secret was answered with its successor; ``stored`` if that is as new."""
    version = successor.version or 0
    if stored is not None and stored.client_id == client_id and _is_ahead(stored, version):
        return stored
    return StoredCredential(client_id, StoredSecret(presented, version - 1), successor)


def with_accepted(stored: StoredCredential, secret: str) -> StoredCredential:
    """Returns what to store after a secret was accepted: a next one that works becomes the current one."""
    if stored.next is not None and stored.next.secret == secret:
        return StoredCredential(stored.client_id, stored.next)
    return stored


def parse_credential(text: str) -> StoredCredential:
    """Parses the JSON of a stored credential, or of a credential as the service created it.

    :raises CredentialStoreError: which does not quote the text
    """
    try:
        # Editors on Windows write a byte order mark.
        value = json.loads(text[1:] if text.startswith("\ufeff") else text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CredentialStoreError("the stored credential is not a JSON object")
    client_id = value.get("client_id")
    current = read_secret(value.get("current")) or read_secret(value)
    if not isinstance(client_id, str) or current is None:
        raise CredentialStoreError("the stored credential lacks client_id or client_secret")
    return StoredCredential(client_id, current, read_successor(value.get("next")))


def serialize_credential(credential: StoredCredential) -> str:
    """Returns the JSON for :func:`parse_credential`, also for stores of your own."""

    def member(each: Optional[StoredSecret]) -> Optional[Dict[str, Any]]:
        return None if each is None else {"client_secret": each.secret, "version": each.version}

    value = {
        "client_id": credential.client_id,
        "current": member(credential.current),
        "next": member(credential.next),
    }
    return json.dumps(value, indent=2) + "\n"


class FileCredentialStore:
    """Keeps a credential in a file, which need not exist yet; its directory must.

    It writes a temporary file, syncs it, renames it over the old one and syncs the directory: the disk always has a
    complete credential. Processes that share the file need no lock: every write contains what it read, and versions
    only grow.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """:raises ValueError: without a path, for instance of a variable that is not set"""
        #: For messages.
        self.place = os.fspath(path or "")
        if self.place.strip() == "":
            raise ValueError("the path of the credential's file is not set")
        self._path = self.place
        self._warned = False

    def load(self) -> Optional[StoredCredential]:
        try:
            with open(self._path, encoding="utf-8") as file:
                mode = os.fstat(file.fileno()).st_mode
                text = file.read()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise CredentialStoreError(f"{self._path}: the stored credential is not text") from None
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO) and not self._warned:
            self._warned = True
            _LOG.warning("STORE_EXPOSED: others can read %s: chmod 600", self._path)
        try:
            return parse_credential(text)
        except CredentialStoreError as error:
            raise CredentialStoreError(f"{self._path}: {error}") from None

    def save(self, credential: StoredCredential) -> None:
        # Resolve a link: a rename would replace it.
        target = os.path.realpath(self._path)
        temporary = f"{target}.{os.getpid()}.{secrets.token_hex(6)}.tmp"
        try:
            # Exclusive: do not follow a planted link.
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(serialize_credential(credential))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            _unlink(temporary)
            raise
        _sync_directory(os.path.dirname(target))
        _remove_leftovers(target)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _sync_directory(path: str) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(target: str) -> None:
    directory, name = os.path.split(target)
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.startswith(f"{name}.") and entry.name.endswith(".tmp"):
                    if time.time() - entry.stat().st_mtime > _LEFTOVER_SECONDS:
                        _unlink(entry.path)
    except OSError:
        # The next save tries again.
        pass
