"""The shared vectors of receivers (test/vectors of the repository)."""

import base64
import json
import os
import pathlib
import unittest
from typing import Any, Dict

from signet_delivery import VerificationError, verify

FILE = pathlib.Path(__file__).parents[3] / "test" / "vectors" / "webhook-signatures.json"


class Vectors(unittest.TestCase):
    def test_every_vector_has_its_result(self) -> None:
        file = json.loads(FILE.read_text())
        only_hmac = os.environ.get("SIGNET_TEST_WITHOUT_ED25519") == "1"
        vectors = [each for each in file["vectors"] if not only_hmac or "algorithm" not in each]
        for vector in vectors:
            with self.subTest(vector["name"]):
                self.assertEqual(self._result(file, vector), vector["expect"])
        print(f"{len(vectors)} vectors")

    def _result(self, file: Dict[str, Any], vector: Dict[str, Any]) -> Dict[str, Any]:
        try:
            verified = verify(
                base64.b64decode(vector["body_base64"]),
                [tuple(header) for header in vector["headers"]],
                vector["secrets"],
                now=vector["now_seconds"],
                tolerance=file["tolerance_seconds"],
                future=file["future_seconds"],
            )
        except VerificationError as error:
            return {"result": "refused", "code": error.code}
        except ValueError:
            return {"result": "misconfigured"}
        return {"result": "accepted", "id": verified.id, "scheme": verified.scheme}
