-- Ed25519 signatures as an option of an endpoint, and rotations on a schedule (docs/signing.md).

ALTER TABLE endpoints
  -- The current secret is replaced when it has been current for so many days.
  ADD COLUMN secret_rotation_days int CONSTRAINT endpoints_secret_rotation_days CHECK (secret_rotation_days BETWEEN 1 AND 365),
  -- A public JWK of the tenant's: what a secret that was made on schedule is encrypted to.
  ADD COLUMN secret_recipient text;
CREATE INDEX endpoints_rotating ON endpoints (id) WHERE secret_rotation_days IS NOT NULL AND state <> 'DELETED';

ALTER TABLE endpoint_secrets
  -- Ed25519 private key, sealed like the secret; null where the endpoint has not asked for such signatures.
  ADD COLUMN signing_key text,
  ADD COLUMN public_key text,
  -- The secret, encrypted to the tenant's own key (JWE): nothing of ours opens it.
  ADD COLUMN encrypted_secret text,
  ADD CONSTRAINT endpoint_secrets_erased CHECK (state <> 'RETIRED' OR (signing_key IS NULL AND encrypted_secret IS NULL));

GRANT INSERT, UPDATE (signing_key, encrypted_secret) ON endpoint_secrets TO signet_worker;
CREATE POLICY worker_adds ON endpoint_secrets FOR INSERT TO signet_worker WITH CHECK (state = 'NEXT');
