-- The portal in a tenant's brand: only what differs from the settings is here. The logo is base64 in it.
ALTER TABLE tenants ADD COLUMN portal_brand jsonb NOT NULL DEFAULT '{}';

-- A name for people. It is not unique.
-- Migration 0059 validates the constraints, without stopping anything.
ALTER TABLE credentials
  ADD COLUMN name text, ADD CONSTRAINT credentials_name CHECK (length(name) <= 128) NOT VALID;
GRANT INSERT (name) ON credentials TO signet_api;

-- From where a browser signed in, for the list of sessions. Both end with the session.
ALTER TABLE portal_sessions
  ADD COLUMN address text, ADD CONSTRAINT portal_sessions_address CHECK (length(address) <= 64) NOT VALID,
  ADD COLUMN user_agent text, ADD CONSTRAINT portal_sessions_user_agent CHECK (length(user_agent) <= 512) NOT VALID;
