"""The credential in a file."""

import json
import os
import pathlib
import stat
import tempfile
import time
import unittest

from signet_delivery import CredentialStoreError, FileCredentialStore, SignetClient
from signet_delivery import StoredCredential, StoredSecret, TlsFiles
from signet_delivery import parse_credential, serialize_credential
from signet_delivery.credentials import with_accepted, with_successor

ONE, TWO, THREE = (StoredSecret(f"s{version}", version) for version in (1, 2, 3))


class File(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.path = self.directory / "credential.json"
        self.store = FileCredentialStore(self.path)

    def test_keeps_what_it_is_given_for_its_owner_only(self) -> None:
        self.assertIsNone(self.store.load())
        credential = StoredCredential("cl_1", ONE, TWO)
        self.store.save(credential)
        self.assertEqual(self.store.load(), credential)
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)
        self.assertEqual(os.listdir(self.directory), ["credential.json"])

    def test_may_be_the_output_of_the_command_line(self) -> None:
        self.path.write_text(json.dumps({"client_id": "cl_1", "client_secret": "s1", "version": 1, "name": None}))
        with self.assertLogs("signet_delivery", "WARNING") as logs:
            self.assertEqual(self.store.load(), StoredCredential("cl_1", ONE))
            self.store.load()
        self.assertEqual(len(logs.output), 1)
        self.assertIn("STORE_EXPOSED", logs.output[0])

    def test_is_replaced_behind_a_link(self) -> None:
        link = self.directory / "link.json"
        link.symlink_to(self.path)
        FileCredentialStore(link).save(StoredCredential("cl_1", ONE))
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.store.load(), StoredCredential("cl_1", ONE))

    def test_keeps_the_old_one_if_the_directory_is_missing(self) -> None:
        with self.assertRaises(OSError):
            FileCredentialStore(self.directory / "none" / "x").save(StoredCredential("cl_1", ONE))

    def test_loses_what_a_killed_process_has_left(self) -> None:
        old, new = (self.directory / f"credential.json.1.{name}.tmp" for name in ("old", "new"))
        for path in (old, new):
            path.touch()
        os.utime(old, (time.time() - 120,) * 2)
        self.store.save(StoredCredential("cl_1", ONE))
        self.assertEqual((old.exists(), new.exists()), (False, True))

    def test_is_named_in_errors(self) -> None:
        for path in ("", " ", None):
            with self.assertRaises(ValueError):
                FileCredentialStore(path)  # type: ignore[arg-type]
        client = SignetClient("https://a", store=self.store)
        with self.assertRaises(CredentialStoreError) as caught:
            client.access_token()
        self.assertIn(f"{self.path} does not exist", str(caught.exception))
        self.path.write_text("[]")
        self.path.chmod(0o600)
        with self.assertLogs("signet_delivery"), self.assertRaises(CredentialStoreError) as caught:
            client.access_token()
        self.assertIn(f"{self.path}: the stored credential is not a JSON object", str(caught.exception))

    def test_may_begin_with_a_byte_order_mark(self) -> None:
        self.path.write_text('\ufeff{"client_id": "cl_1", "client_secret": "s1", "version": 1}', encoding="utf-8")
        self.path.chmod(0o600)
        self.assertEqual(self.store.load(), StoredCredential("cl_1", ONE))

    def test_of_tls_is_named_in_errors(self) -> None:
        self.path.write_text("no certificate")
        missing = str(self.directory / "missing.pem")
        given = str(self.path)
        for files, name in (
            (TlsFiles(ca_file=missing), missing),
            (TlsFiles(cert_file=missing), missing),
            (TlsFiles(cert_file=given, key_file=missing), missing),
            (TlsFiles(cert_file=given), given),
            (TlsFiles(ca_file=given), given),
        ):
            with self.assertRaises(OSError) as caught:
                SignetClient("https://a", client_id="cl_1", tls=files)
            self.assertIn(name, str(caught.exception))

    def test_is_never_quoted_in_errors(self) -> None:
        for text in ('{"client_secret": "canary"}', "canary", '["canary"]', "\udcff"):
            self.path.write_text(text, errors="surrogateescape")
            with self.assertRaises(CredentialStoreError) as caught:
                self.store.load()
            self.assertNotIn("canary", str(caught.exception))
        self.assertNotIn("s1", repr(StoredCredential("cl_1", ONE, TWO)))


class Succession(unittest.TestCase):
    def test_never_goes_back(self) -> None:
        both = StoredCredential("cl_1", ONE, TWO)
        self.assertEqual(with_successor(None, "cl_1", "s1", TWO), both)
        self.assertIs(with_successor(both, "cl_1", "s1", TWO), both)
        newer = StoredCredential("cl_1", THREE)
        self.assertIs(with_successor(newer, "cl_1", "s1", TWO), newer)
        self.assertEqual(with_successor(newer, "cl_2", "s1", TWO), StoredCredential("cl_2", ONE, TWO))

    def test_makes_an_accepted_successor_the_current_secret(self) -> None:
        both = StoredCredential("cl_1", ONE, TWO)
        self.assertEqual(with_accepted(both, "s2"), StoredCredential("cl_1", TWO))
        self.assertIs(with_accepted(both, "s1"), both)

    def test_has_a_text_form(self) -> None:
        both = StoredCredential("cl_1", ONE, TWO)
        self.assertEqual(parse_credential(serialize_credential(both)), both)
