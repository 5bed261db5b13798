"""Gets a token with each private key, and prints the scopes."""

import os

from signet_delivery import SignetClient, private_key_assertion

for name in ("ec", "rsa", "ed25519"):
    client_id = os.environ[f"CLIENT_{name}"]
    assertion = private_key_assertion(client_id, os.environ[f"KEY_{name}"], kid="k1")
    signet = SignetClient(os.environ["SIGNET_URL"], client_id=client_id, client_assertion=assertion)
    print(signet.access_token().scope)
