-- Events of revocations. A revocation is its row, its entry and its notification, and needs nothing but PostgreSQL. Its
-- events need keys, streams and room for events: a worker publishes them from here, and removes the row.
CREATE TABLE revocation_notices (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind      text NOT NULL,
  target    text COLLATE "C" NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  reason    text,
  actor     text NOT NULL,
  at        timestamptz NOT NULL
);
CREATE INDEX revocation_notices_of_tenant ON revocation_notices (tenant_id, id);

ALTER TABLE revocation_notices ENABLE ROW LEVEL SECURITY;
ALTER TABLE revocation_notices FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_rows ON revocation_notices TO signet_owner USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON revocation_notices TO signet_operator USING (true) WITH CHECK (true);
CREATE POLICY worker_rows ON revocation_notices TO signet_worker USING (true);
-- UPDATE only for FOR UPDATE SKIP LOCKED.
GRANT SELECT, INSERT, UPDATE, DELETE ON revocation_notices TO signet_operator;
-- The erasure of a tenant.
GRANT SELECT (id, tenant_id), DELETE ON revocation_notices TO signet_worker;

CREATE FUNCTION tell_of_notices() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_notify('signet_revocation_notices', '');
  RETURN NULL;
END $$;
CREATE TRIGGER revocation_notices_tell AFTER INSERT ON revocation_notices
  FOR EACH STATEMENT EXECUTE FUNCTION tell_of_notices();

-- publish_revocation with a notice. Older processes publish the events of their revocations themselves, and call that
-- function. So during an upgrade each event has one author, and revocations from before have no notice.
CREATE FUNCTION publish_revocation_with_notice(
  revocation_id text, revocation_kind text, revocation_target text, tenant text, stated_reason text, acting text,
  life interval, disabled_now boolean, before_index bytea, after_index bytea
) RETURNS public.revocations
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  published public.revocations;
BEGIN
  published := public.publish_revocation(revocation_id, revocation_kind, revocation_target, tenant, stated_reason, acting,
    life, disabled_now, before_index, after_index);
  -- Otherwise the target was revoked before.
  IF published.id = revocation_id AND tenant IS NOT NULL THEN
    INSERT INTO public.revocation_notices (kind, target, tenant_id, reason, actor, at)
      VALUES (revocation_kind, revocation_target, tenant, stated_reason, acting, published.at);
  END IF;
  RETURN published;
END $$;
REVOKE ALL ON FUNCTION
  publish_revocation_with_notice(text, text, text, text, text, text, interval, boolean, bytea, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
  publish_revocation_with_notice(text, text, text, text, text, text, interval, boolean, bytea, bytea)
  TO signet_api, signet_operator, signet_issuer, signet_worker, signet_rotator;
