-- A tenant may register the keys of its own client: the statement that adds a credential without a secret names them.
GRANT INSERT (jwks) ON credentials TO signet_api;
