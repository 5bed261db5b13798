-- What operators allow a tenant beyond the settings, or less: only what differs is here.
ALTER TABLE tenants ADD COLUMN limits jsonb NOT NULL DEFAULT '{}';

-- Whether a credential publishes with its signature only.
ALTER TABLE credentials ADD COLUMN signature_required boolean NOT NULL DEFAULT false;
CREATE INDEX credentials_signing ON credentials (tenant_id) WHERE signature_required;
GRANT UPDATE (signature_required) ON credentials TO signet_api;
CREATE POLICY tenant_requires_signatures ON credentials FOR UPDATE TO signet_api
  USING (tenant_id = current_tenant() AND state = 'ACTIVE') WITH CHECK (tenant_id = current_tenant() AND state = 'ACTIVE');

-- What producers sign events with. A version ends when its successor has overlapped it for long enough, or at once.
CREATE TABLE producer_secrets (
  credential_id text COLLATE "C" NOT NULL REFERENCES credentials,
  version       int NOT NULL,
  tenant_id     text COLLATE "C" NOT NULL REFERENCES tenants,
  -- An envelope under the tenant's data key; erased when the version ends by hand.
  secret        text,
  fingerprint   text NOT NULL,
  created_at    timestamptz NOT NULL,
  last_used_at  timestamptz,
  ends_at       timestamptz,
  revoked_at    timestamptz,
  PRIMARY KEY (credential_id, version),
  CONSTRAINT producer_secrets_erased CHECK ((secret IS NULL) = (revoked_at IS NOT NULL))
);
ALTER TABLE producer_secrets ENABLE ROW LEVEL SECURITY;
ALTER TABLE producer_secrets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON producer_secrets TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY issuer_rows ON producer_secrets TO signet_issuer USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE (secret, ends_at, revoked_at) ON producer_secrets TO signet_api;
GRANT SELECT, UPDATE (last_used_at) ON producer_secrets TO signet_issuer;
