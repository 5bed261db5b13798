-- Versions of what decides which endpoints take a tenant's events: its endpoints and event types. The insert of events
-- compares them, and reads the endpoints only if they have changed (decision 42). Every version is new and random, so it
-- never comes back, not even in a restored database or after a fail-over.
CREATE TABLE match_versions (
  -- Without a foreign key: its check would wait for whatever locks the tenant.
  tenant_id text COLLATE "C" NOT NULL,
  slot      uuid NOT NULL DEFAULT gen_random_uuid(),
  version   uuid NOT NULL,
  -- The index has no version, and pages have room, so an update stays in its page.
  PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 50);

ALTER TABLE match_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE match_versions FORCE ROW LEVEL SECURITY;
-- Those of the trigger.
CREATE POLICY owner_rows ON match_versions TO signet_owner USING (true) WITH CHECK (true);
CREATE POLICY ingest_rows ON match_versions FOR SELECT TO signet_ingest USING (true);
CREATE POLICY worker_reads ON match_versions FOR SELECT TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_erases ON match_versions FOR DELETE TO signet_worker USING (is_erased(tenant_id));
GRANT SELECT ON match_versions TO signet_ingest;
GRANT SELECT, DELETE ON match_versions TO signet_worker;

-- Gives a tenant a new version at the commit. It waits for nobody: each of several transactions at once changes a row of its
-- own, and the rows together are the version. So a tenant has as many rows as it had such transactions at a time.
CREATE FUNCTION note_match_change() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  tenant text := CASE WHEN TG_OP = 'DELETE' THEN OLD.tenant_id ELSE NEW.tenant_id END;
  place tid;
BEGIN
  -- Once in a transaction is enough. A savepoint has a number of its own, so what is rolled back does not count.
  IF EXISTS (SELECT FROM public.match_versions v WHERE v.tenant_id = tenant AND v.xmin = pg_current_xact_id()::xid) THEN
    RETURN NULL;
  END IF;
  SELECT v.ctid INTO place FROM public.match_versions v WHERE v.tenant_id = tenant LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF FOUND THEN
    UPDATE public.match_versions v SET version = gen_random_uuid() WHERE v.ctid = place;
  ELSE
    INSERT INTO public.match_versions (tenant_id, version) VALUES (tenant, gen_random_uuid());
  END IF;
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION note_match_change() FROM PUBLIC;

-- What a fingerprint has, and no more: most changes of an endpoint leave its matches as they are.
CREATE TRIGGER matches_begin AFTER INSERT ON endpoints FOR EACH ROW
  WHEN (NEW.state IN ('ACTIVE', 'DISABLED')) EXECUTE FUNCTION note_match_change();
CREATE TRIGGER matches_change AFTER UPDATE ON endpoints FOR EACH ROW
  -- PostgreSQL would print a comparison of rows otherwise after a dump.
  WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.event_types IS DISTINCT FROM NEW.event_types
    OR OLD.filter_hash IS DISTINCT FROM NEW.filter_hash)
  EXECUTE FUNCTION note_match_change();
CREATE TRIGGER matches_end AFTER DELETE ON endpoints FOR EACH ROW
  WHEN (OLD.state IN ('ACTIVE', 'DISABLED')) EXECUTE FUNCTION note_match_change();
CREATE TRIGGER types_begin_and_end AFTER INSERT OR DELETE ON event_types FOR EACH ROW EXECUTE FUNCTION note_match_change();
CREATE TRIGGER types_change AFTER UPDATE ON event_types FOR EACH ROW
  WHEN ((OLD.schema_digest, OLD.deprecated_at) IS DISTINCT FROM (NEW.schema_digest, NEW.deprecated_at))
  EXECUTE FUNCTION note_match_change();
