"""Calls a service that requires mutual TLS, before and after the certificate's files are replaced."""

import os
import shutil

from signet_delivery import SignetClient, SignetTransportError, TlsFiles, _http

_http._RELOAD_SECONDS = 0.0
URL, CLIENT_ID, FILES = (os.environ[name] for name in ("SIGNET_URL", "CLIENT_ID", "FILES"))


def path(name):
    return os.path.join(FILES, name)


signet = SignetClient(
    URL,
    client_id=CLIENT_ID,
    tls=TlsFiles(cert_file=path("client.crt"), key_file=path("client.key"), ca_file=path("ca.crt")),
)
first = signet.access_token().value
[credential] = signet.credentials.list()
# In use while the files change.
busy = signet._connections._connected()
# The key of another certificate does not fit: the earlier pair stays in use.
shutil.copy(path("other.key"), path("client.key"))
signet.credentials.get(credential["id"])
assert signet.access_token().value == first
shutil.copy(path("other.crt"), path("client.crt"))
# The token is bound to the earlier certificate, so the service rejects it.
signet.credentials.get(credential["id"])
assert signet.access_token().value != first
# It has presented the earlier certificate, so nobody uses it again.
signet._connections._keep(busy)
assert signet._connections._connected() is not busy
try:
    SignetClient(URL, client_id=CLIENT_ID, tls=TlsFiles()).access_token()
except SignetTransportError as error:
    # The service's certificate is not one of the system's.
    print(error.code)
