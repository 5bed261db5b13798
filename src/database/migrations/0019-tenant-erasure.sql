-- Erasing a tenant: its data key goes at once, in one row; the worker overwrites what is not sealed, in pages.

ALTER TABLE tenants DROP CONSTRAINT tenants_state;
ALTER TABLE tenants
  ADD CONSTRAINT tenants_state CHECK (state IN ('ACTIVE', 'SUSPENDED', 'ERASED')),
  ADD COLUMN erased_at timestamptz,
  -- When nothing of it was left to overwrite.
  ADD COLUMN erasure_completed_at timestamptz,
  ADD CONSTRAINT tenants_erased CHECK ((state = 'ERASED') = (erased_at IS NOT NULL) AND (state <> 'ERASED' OR data_key = ''));
CREATE INDEX tenants_erasing ON tenants (id) WHERE erased_at IS NOT NULL AND erasure_completed_at IS NULL;

CREATE FUNCTION refuse_return_of_tenant() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'a tenant that is erased stays so' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER tenants_stay_erased BEFORE UPDATE ON tenants
  FOR EACH ROW WHEN (OLD.state = 'ERASED' AND (NEW.state <> 'ERASED' OR NEW.data_key <> ''))
  EXECUTE FUNCTION refuse_return_of_tenant();

-- The worker may destroy what belongs to tenants that are erased, and nothing of any other.
CREATE FUNCTION is_erased(tenant text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
  AS $$ SELECT EXISTS (SELECT FROM public.tenants WHERE id = tenant AND state = 'ERASED') $$;

GRANT UPDATE (erasure_completed_at) ON tenants TO signet_worker;
CREATE POLICY worker_erases ON tenants FOR UPDATE TO signet_worker USING (state = 'ERASED');
GRANT UPDATE (data, content, content_erased_at, source_id) ON events TO signet_worker;
CREATE POLICY worker_erases ON events FOR UPDATE TO signet_worker USING (is_erased(tenant_id));
GRANT DELETE ON endpoints, endpoint_secrets TO signet_worker;
CREATE POLICY worker_erases ON endpoints AS RESTRICTIVE FOR DELETE TO signet_worker USING (state = 'DELETED');
CREATE POLICY worker_erases ON endpoint_secrets FOR DELETE TO signet_worker USING (is_erased(tenant_id));
GRANT SELECT (tenant_id, credential_id, version), DELETE ON producer_secrets TO signet_worker;
GRANT SELECT (tenant_id, credential_id, jti_digest), DELETE ON client_assertions TO signet_worker;
CREATE POLICY worker_reads ON producer_secrets FOR SELECT TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_erases ON producer_secrets FOR DELETE TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_reads ON client_assertions FOR SELECT TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_erases ON client_assertions FOR DELETE TO signet_worker USING (is_erased(tenant_id));
GRANT SELECT (tenant_id, name), DELETE ON event_types TO signet_worker;
GRANT SELECT (tenant_id, name, version), DELETE ON event_type_schemas TO signet_worker;
CREATE POLICY worker_reads ON event_types FOR SELECT TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_erases ON event_types FOR DELETE TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_reads ON event_type_schemas FOR SELECT TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_erases ON event_type_schemas FOR DELETE TO signet_worker USING (is_erased(tenant_id));
