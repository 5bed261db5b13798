-- Rotation of client secrets (security decisions C). Every time comes from the caller: nothing here asks for now().

ALTER TABLE secret_versions
  -- When the successor was first used: from then on the version ends once nobody uses it any more.
  ADD COLUMN superseded_at timestamptz,
  ADD COLUMN retired_at timestamptz,
  ADD COLUMN retired_reason text CONSTRAINT secret_versions_retired_reason CHECK (retired_reason IN ('quiet', 'age')),
  -- Its successor can be had no more, not even over the registered certificate.
  ADD COLUMN rescue_ended boolean NOT NULL DEFAULT false,
  -- How often it was handed out as a successor.
  ADD COLUMN delivered_count int NOT NULL DEFAULT 0,
  -- What the compliance log has been told.
  ADD COLUMN delivered_reported int NOT NULL DEFAULT 0,
  ADD COLUMN delivered_reported_at timestamptz,
  ADD COLUMN due_reported_at timestamptz,
  -- When somebody is to be told (again) that the rotation is overdue.
  ADD COLUMN next_alert_at timestamptz,
  ADD COLUMN rescue_reported_at timestamptz,
  ADD COLUMN misuse_reported_at timestamptz;

ALTER TABLE credentials
  -- Replaced by its tenant: good until ends_at, then revoked.
  ADD COLUMN ends_at timestamptz,
  ADD COLUMN replaced_by text COLLATE "C" REFERENCES credentials;

-- Versions from before this migration get the end that new ones have. Row-level security binds the owner too.
ALTER TABLE secret_versions NO FORCE ROW LEVEL SECURITY;
UPDATE secret_versions SET retire_by = due_at + interval '45 days' WHERE due_at IS NOT NULL AND retire_by IS NULL;
ALTER TABLE secret_versions FORCE ROW LEVEL SECURITY;

-- What the sweep looks for.
CREATE INDEX secret_versions_due ON secret_versions (due_at) WHERE state = 'ACTIVE' AND due_at IS NOT NULL;
CREATE INDEX secret_versions_due_unreported ON secret_versions (due_at)
  WHERE state = 'ACTIVE' AND due_at IS NOT NULL AND due_reported_at IS NULL;
CREATE INDEX secret_versions_alerts ON secret_versions (next_alert_at) WHERE state = 'ACTIVE' AND next_alert_at IS NOT NULL;
CREATE INDEX secret_versions_aging ON secret_versions (retire_by) WHERE state = 'ACTIVE' AND retire_by IS NOT NULL;
CREATE INDEX secret_versions_retiring ON secret_versions (credential_id, version) WHERE state = 'RETIRING';
CREATE INDEX secret_versions_rescuable ON secret_versions (greatest(retired_at, last_used_at))
  WHERE state = 'RETIRED' AND NOT rescue_ended;
CREATE INDEX secret_versions_delivered ON secret_versions (credential_id, version) WHERE delivered_count > delivered_reported;
CREATE INDEX credentials_ending ON credentials (ends_at) WHERE state = 'ACTIVE' AND ends_at IS NOT NULL;

-- A version goes one way, whoever writes: what is over is never good again, and what is revoked stays revoked.
CREATE FUNCTION check_secret_version_state() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.state <> OLD.state AND NEW.state <> 'REVOKED' AND (OLD.state, NEW.state) NOT IN (
    ('PENDING', 'ACTIVE'), ('ACTIVE', 'RETIRING'), ('ACTIVE', 'RETIRED'), ('RETIRING', 'RETIRED')
  ) THEN
    RAISE EXCEPTION 'a secret version that is % cannot become %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER secret_versions_one_way BEFORE UPDATE OF state ON secret_versions
  FOR EACH ROW EXECUTE FUNCTION check_secret_version_state();

CREATE FUNCTION check_credential_state() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'a credential that is revoked stays so' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER credentials_one_way BEFORE UPDATE OF state ON credentials
  FOR EACH ROW WHEN (OLD.state = 'REVOKED' AND NEW.state <> 'REVOKED') EXECUTE FUNCTION check_credential_state();

-- Revoking a credential revokes every version of its secret and erases what only they could open, in one step for
-- whoever revokes. Runs as the owner, which row-level security binds: hence a policy of its own.
CREATE FUNCTION revoke_secret_versions() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE public.secret_versions SET state = 'REVOKED', wrapped = NULL WHERE credential_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER credentials_revoke_versions AFTER UPDATE OF state ON credentials
  FOR EACH ROW WHEN (NEW.state = 'REVOKED' AND OLD.state <> 'REVOKED') EXECUTE FUNCTION revoke_secret_versions();
CREATE POLICY owner_rows ON secret_versions TO signet_owner USING (true) WITH CHECK (true);

-- The rotator moves versions on: it may add successors, which are PENDING, and never sees a MAC.
GRANT SELECT (id, tenant_id, principal_id, client_id, state, rotation_mode, san_uri, certificate_thumbprints, ends_at),
  UPDATE (state, revoked_at) ON credentials TO signet_rotator;
CREATE POLICY rotator_rows ON credentials FOR SELECT TO signet_rotator USING (true);
CREATE POLICY rotator_revokes ON credentials FOR UPDATE TO signet_rotator USING (true) WITH CHECK (state = 'REVOKED');
GRANT SELECT (credential_id, version, tenant_id, state, issued_at, due_at, acked_at, last_used_at, retire_by, wrapped,
    superseded_at, retired_at, retired_reason, rescue_ended, delivered_count, delivered_reported, delivered_reported_at,
    due_reported_at, next_alert_at, rescue_reported_at, misuse_reported_at),
  INSERT (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at, wrapped),
  UPDATE (state, due_at, acked_at, retire_by, wrapped, superseded_at, retired_at, retired_reason, rescue_ended,
    delivered_count, delivered_reported, delivered_reported_at, due_reported_at, next_alert_at, rescue_reported_at,
    misuse_reported_at)
  ON secret_versions TO signet_rotator;
CREATE POLICY rotator_reads ON secret_versions FOR SELECT TO signet_rotator USING (true);
CREATE POLICY rotator_adds ON secret_versions FOR INSERT TO signet_rotator WITH CHECK (state = 'PENDING');
CREATE POLICY rotator_moves ON secret_versions FOR UPDATE TO signet_rotator USING (true) WITH CHECK (true);

GRANT EXECUTE ON FUNCTION append_compliance_entry(bytea, bytea) TO signet_rotator;
GRANT EXECUTE ON FUNCTION publish_revocation(text, text, text, text, text, text, interval, boolean, bytea, bytea) TO signet_rotator;

-- A tenant makes and replaces credentials of its own, and sees how its secrets stand, without what they are.
GRANT INSERT (id, tenant_id, principal_id, client_id, rotation_mode, san_uri, certificate_thumbprints, created_at),
  UPDATE (ends_at, replaced_by) ON credentials TO signet_api;
CREATE POLICY tenant_adds ON credentials FOR INSERT TO signet_api WITH CHECK (tenant_id = current_tenant() AND state = 'ACTIVE');
CREATE POLICY tenant_replaces ON credentials FOR UPDATE TO signet_api
  USING (tenant_id = current_tenant() AND state = 'ACTIVE') WITH CHECK (tenant_id = current_tenant() AND ends_at IS NOT NULL AND replaced_by IS NOT NULL);
GRANT SELECT (credential_id, version, tenant_id, state, issued_at, due_at, acked_at, last_used_at, retire_by,
    superseded_at, retired_at, retired_reason, delivered_count),
  INSERT (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at, acked_at, due_at, retire_by)
  ON secret_versions TO signet_api;
CREATE POLICY tenant_rows ON secret_versions FOR SELECT TO signet_api USING (tenant_id = current_tenant());
CREATE POLICY tenant_adds ON secret_versions FOR INSERT TO signet_api
  WITH CHECK (tenant_id = current_tenant() AND version = 1 AND state = 'ACTIVE');
