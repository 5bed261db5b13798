-- As in migration 0028, but whatever names a certificate: the end of portal sessions must never keep a revocation from being
-- written, and what is no SHA-256 thumbprint in hexadecimal names the certificate of no session.
CREATE OR REPLACE FUNCTION end_portal_sessions() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  thumbprint text;
BEGIN
  IF NEW.kind = 'cert' AND NEW.target ~ '^[0-9A-Fa-f]{64}$' THEN
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
