-- Clients without a secret: they prove who they are with a registered certificate (tls_client_auth) or with a key of
-- their own (private_key_jwt). Public keys only.

ALTER TABLE credentials ADD COLUMN jwks jsonb
  CONSTRAINT credentials_jwks_of_workload CHECK (jwks IS NULL OR rotation_mode = 'workload');

-- Assertions that were used once: RFC 7523 section 3 (7). A row is needed until its assertion has expired, which is
-- five minutes at most.
CREATE TABLE client_assertions (
  credential_id text COLLATE "C" NOT NULL REFERENCES credentials,
  -- SHA-256 of the jti, which is the client's to choose.
  jti_digest    bytea NOT NULL,
  tenant_id     text COLLATE "C" NOT NULL REFERENCES tenants,
  expires_at    timestamptz NOT NULL,
  PRIMARY KEY (credential_id, jti_digest)
);
CREATE INDEX client_assertions_expired ON client_assertions (expires_at);

ALTER TABLE client_assertions ENABLE ROW LEVEL SECURITY;
ALTER TABLE client_assertions FORCE ROW LEVEL SECURITY;
CREATE POLICY issuer_rows ON client_assertions TO signet_issuer USING (true) WITH CHECK (true);
-- UPDATE: what FOR UPDATE asks for.
GRANT SELECT, INSERT, DELETE, UPDATE (expires_at) ON client_assertions TO signet_issuer;
