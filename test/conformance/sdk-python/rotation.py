"""Gets a token with the credential in a file, and prints the versions of the secrets in it."""

import os

from signet_delivery import FileCredentialStore, SignetClient

store = FileCredentialStore(os.environ["SIGNET_CREDENTIAL_FILE"])
SignetClient(os.environ["SIGNET_URL"], store=store).access_token()
stored = store.load()
print(stored.current.version, None if stored.next is None else stored.next.version)
