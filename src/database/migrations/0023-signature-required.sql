-- A policy lets a role write every column that it may write: one for signature_required would have let tenants take back
-- the end of a credential that was replaced. A function writes nothing else.
DROP POLICY tenant_requires_signatures ON credentials;
REVOKE UPDATE (signature_required) ON credentials FROM signet_api;

CREATE POLICY owner_signing ON credentials TO signet_owner USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

-- Whether it was otherwise before. Of the caller's tenant only, and not of what is revoked.
CREATE FUNCTION require_signatures(tenant text, credential text, required boolean) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE public.credentials SET signature_required = required
    WHERE tenant_id = public.current_tenant() AND tenant_id = tenant AND id = credential AND state = 'ACTIVE'
      AND signature_required <> required;
  RETURN FOUND;
END $$;
REVOKE ALL ON FUNCTION require_signatures(text, text, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION require_signatures(text, text, boolean) TO signet_api;
