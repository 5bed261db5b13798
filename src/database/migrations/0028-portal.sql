-- The tenant portal: one-time links and the sessions that they open (docs/portal.md). Only SHA-256 hashes of what a browser
-- holds are kept. Either belongs to the credential whose token minted the link, and carries what revocation asks of a token.

CREATE TABLE portal_links (
  hash          bytea PRIMARY KEY,
  tenant_id     text COLLATE "C" NOT NULL REFERENCES tenants,
  principal_id  text COLLATE "C" NOT NULL REFERENCES principals,
  credential_id text COLLATE "C" NOT NULL REFERENCES credentials,
  scopes        text[] NOT NULL,
  jti           text NOT NULL,
  kid           text NOT NULL,
  -- Of the token, seconds of Unix time.
  issued_at     bigint NOT NULL,
  -- `x5t#S256` of the certificate that the token was bound to.
  certificate_thumbprint text,
  created_at    timestamptz NOT NULL,
  expires_at    timestamptz NOT NULL
);
CREATE INDEX portal_links_of_credential ON portal_links (tenant_id, credential_id, expires_at);

CREATE TABLE portal_sessions (LIKE portal_links INCLUDING CONSTRAINTS);
ALTER TABLE portal_sessions
  ADD PRIMARY KEY (hash),
  ADD FOREIGN KEY (tenant_id) REFERENCES tenants,
  ADD FOREIGN KEY (principal_id) REFERENCES principals,
  ADD FOREIGN KEY (credential_id) REFERENCES credentials;
CREATE INDEX portal_sessions_of_credential ON portal_sessions (tenant_id, credential_id, expires_at);

ALTER TABLE portal_links ENABLE ROW LEVEL SECURITY;
ALTER TABLE portal_links FORCE ROW LEVEL SECURITY;
ALTER TABLE portal_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE portal_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON portal_links TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON portal_sessions TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT, DELETE ON portal_links, portal_sessions TO signet_api;

-- A revocation ends the sessions of its target, in its own transaction. Tokens are compared with a revocation for as long as
-- tokens live; a session lives longer.
CREATE POLICY owner_rows ON portal_links TO signet_owner USING (true);
CREATE POLICY owner_rows ON portal_sessions TO signet_owner USING (true);

CREATE FUNCTION end_portal_sessions() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  thumbprint text;
BEGIN
  IF NEW.kind = 'cert' THEN
    thumbprint := rtrim(translate(encode(decode(NEW.target, 'hex'), 'base64'), E'+/\n', '-_'), '=');
  END IF;
  DELETE FROM public.portal_links WHERE CASE NEW.kind
    WHEN 'tenant' THEN tenant_id = NEW.target WHEN 'principal' THEN principal_id = NEW.target
    WHEN 'credential' THEN credential_id = NEW.target WHEN 'jti' THEN jti = NEW.target
    WHEN 'kid' THEN kid = NEW.target ELSE certificate_thumbprint = thumbprint END;
  DELETE FROM public.portal_sessions WHERE CASE NEW.kind
    WHEN 'tenant' THEN tenant_id = NEW.target WHEN 'principal' THEN principal_id = NEW.target
    WHEN 'credential' THEN credential_id = NEW.target WHEN 'jti' THEN jti = NEW.target
    WHEN 'kid' THEN kid = NEW.target ELSE certificate_thumbprint = thumbprint END;
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION end_portal_sessions() FROM PUBLIC;
CREATE TRIGGER portal_sessions_revoked AFTER INSERT ON revocations
  FOR EACH ROW WHEN (NEW.issued_before IS NULL) EXECUTE FUNCTION end_portal_sessions();

CREATE FUNCTION end_held_portal_sessions() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM public.portal_links WHERE tenant_id = NEW.id;
  DELETE FROM public.portal_sessions WHERE tenant_id = NEW.id;
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION end_held_portal_sessions() FROM PUBLIC;
CREATE TRIGGER portal_sessions_held AFTER UPDATE OF state, held_at ON tenants
  FOR EACH ROW WHEN (NEW.state <> 'ACTIVE' OR (NEW.held_at IS NOT NULL AND OLD.held_at IS NULL))
  EXECUTE FUNCTION end_held_portal_sessions();
