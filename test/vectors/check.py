"""Checks docs/examples/verify_webhook.py with the vectors: python3 test/vectors/check.py"""

import base64
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent.parent / "docs" / "examples"))

from verify_webhook import Refused, verify  # noqa: E402


def outcome(vector, file):
    try:
        found_id, scheme, _payload = verify(
            base64.b64decode(vector["body_base64"]),
            [tuple(header) for header in vector["headers"]],
            vector["secrets"],
            now=vector["now_seconds"],
            tolerance=file["tolerance_seconds"],
            future=file["future_seconds"],
        )
        return {"result": "accepted", "id": found_id, "scheme": scheme}
    except Refused as refused:
        return {"result": "refused", "code": refused.code}
    except ValueError:
        return {"result": "misconfigured"}


file = json.loads((HERE / "webhook-signatures.json").read_text())
# Python's standard library has no Ed25519.
vectors = [vector for vector in file["vectors"] if "algorithm" not in vector]
wrong = 0
for vector in vectors:
    found = outcome(vector, file)
    if found != vector["expect"]:
        wrong += 1
        print(f"{vector['name']}: {found}, not {vector['expect']}")
print(f"{len(vectors)} vectors, {wrong} wrong")
sys.exit(1 if wrong else 0)
