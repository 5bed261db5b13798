-- Ed25519 keys of endpoints are public: /.well-known/webhooks/{id}/jwks.json shows them to whoever has the id.
GRANT SELECT (endpoint_id, tenant_id, version, state, overlap_ends_at, public_key) ON endpoint_secrets TO signet_issuer;
CREATE POLICY public_keys ON endpoint_secrets FOR SELECT TO signet_issuer
  USING (public_key IS NOT NULL AND state <> 'RETIRED');
-- By the id of a tenant, few of whose endpoints sign with Ed25519.
CREATE INDEX endpoint_secrets_public ON endpoint_secrets (tenant_id, endpoint_id) WHERE public_key IS NOT NULL;
