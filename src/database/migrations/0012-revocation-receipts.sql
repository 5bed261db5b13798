-- Receipts of revocations, the undoing of a tenant's, and tenants whose deliveries wait.

-- Who follows the revocations, and how far. Unlogged: a crash ends every connection, and who connects is written anew.
-- A row counts while its advisory lock is held by the connection that is followed over (`pg_locks`), and not longer.
CREATE UNLOGGED TABLE revocation_followers (
  lock_key   int PRIMARY KEY,
  process    text NOT NULL,
  -- Every revocation up to this number is obeyed.
  seq        bigint NOT NULL,
  applied_at timestamptz NOT NULL
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE, DELETE ON revocation_followers TO signet_edge;

ALTER TABLE revocations
  -- Only of what undoes one: tokens that were issued in this second of Unix time or later are good again.
  ADD COLUMN issued_before bigint,
  -- What the slowest of those who follow took, milliseconds; written once, when they were waited for.
  ADD COLUMN slowest_ms int,
  ADD COLUMN propagated_at timestamptz;
GRANT SELECT (at, issued_before) ON revocations TO signet_edge;

-- How many follow, how many of them obey a revocation, and the slowest of these: from the revocation's entry to the
-- acknowledgement, by the one clock of this server.
CREATE FUNCTION revocation_receipt(number bigint, lock_class int, OUT live int, OUT acked int, OUT max_ms int, OUT reported boolean)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(f.lock_key)::int, count(*) FILTER (WHERE f.seq >= number)::int,
    coalesce(r.slowest_ms, ceil(extract(epoch FROM max(f.applied_at - r.at) FILTER (WHERE f.seq >= number)) * 1000)::int),
    r.propagated_at IS NOT NULL
  FROM public.revocations r
  LEFT JOIN (
    SELECT follower.* FROM pg_locks held
    JOIN pg_database here ON here.oid = held.database AND here.datname = current_database()
    JOIN public.revocation_followers follower ON follower.lock_key::oid = held.objid
    WHERE held.locktype = 'advisory' AND held.classid = lock_class::oid AND held.objsubid = 2 AND held.granted
  ) f ON true
  WHERE r.seq = number
  GROUP BY r.seq
$$;
REVOKE ALL ON FUNCTION revocation_receipt(bigint, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION revocation_receipt(bigint, int) TO signet_issuer;

-- Writes down, once, how a revocation has spread.
CREATE FUNCTION report_propagation(number bigint, slowest int, before_index bytea, after_index bytea) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE public.revocations SET slowest_ms = slowest, propagated_at = clock_timestamp()
    WHERE seq = number AND propagated_at IS NULL;
  IF FOUND THEN
    PERFORM public.append_compliance_entry(before_index, after_index);
  END IF;
END $$;
REVOKE ALL ON FUNCTION report_propagation(bigint, int, bytea, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION report_propagation(bigint, int, bytea, bytea) TO signet_issuer;

-- Undoes the revocation of a tenant: its tokens stay dead, those that it gets from now on are good. A number of the same
-- sequence, so that nobody can know this and not what came before. `skew`: how far an issuer's clock may be ahead of this.
CREATE FUNCTION lift_tenant_revocation(
  revocation_id text, tenant text, stated_reason text, acting text, life interval, skew interval,
  before_index bytea, after_index bytea
) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  appended record;
  sequence bigint;
  revoked  timestamptz;
BEGIN
  PERFORM FROM public.clog_head WHERE log_id = 1 FOR UPDATE;
  SELECT at INTO revoked FROM public.revocations r
    WHERE r.kind = 'tenant' AND r.target = tenant AND r.issued_before IS NULL ORDER BY r.seq DESC LIMIT 1;
  SELECT * INTO appended FROM public.append_compliance_entry(before_index, after_index);
  UPDATE public.rev_clock SET seq = seq + 1 WHERE id = 1 RETURNING seq INTO sequence;
  INSERT INTO public.revocations
      (seq, id, kind, target, tenant_id, reason, actor, at, expires_at, log_index, leaf_hash, issued_before, propagated_at)
    VALUES (sequence, revocation_id, 'tenant', tenant, tenant, stated_reason, acting,
      clock_timestamp(), clock_timestamp() + life, appended.place, appended.leaf,
      floor(extract(epoch FROM greatest(clock_timestamp(), revoked + skew + interval '1 second'))), clock_timestamp());
  -- No kind of revocation: who hears it asks, and believes the answer alone.
  PERFORM pg_notify('signet_revocations', concat_ws(':', sequence, 'lifted', tenant));
  RETURN sequence;
END $$;
REVOKE ALL ON FUNCTION lift_tenant_revocation(text, text, text, text, interval, interval, bytea, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lift_tenant_revocation(text, text, text, text, interval, interval, bytea, bytea)
  TO signet_operator;

-- Since when a tenant's deliveries wait and the secrets of its endpoints stay as they are.
ALTER TABLE tenants ADD COLUMN held_at timestamptz;
CREATE INDEX tenants_held ON tenants (id) WHERE held_at IS NOT NULL;
GRANT UPDATE (held_at) ON tenants TO signet_api;
CREATE POLICY tenant_holds ON tenants FOR UPDATE TO signet_api
  USING (id = current_tenant()) WITH CHECK (id = current_tenant() AND held_at IS NOT NULL);

CREATE FUNCTION refuse_frozen_secret() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM public.tenants WHERE id = NEW.tenant_id AND held_at IS NOT NULL) THEN
    RAISE EXCEPTION 'the secrets of this tenant''s endpoints are frozen'
      USING ERRCODE = 'object_not_in_prerequisite_state', CONSTRAINT = 'endpoint_secrets_frozen';
  END IF;
  RETURN NEW;
END $$;
-- Not what retires one: an endpoint can be deleted.
CREATE TRIGGER endpoint_secrets_frozen BEFORE INSERT OR UPDATE ON endpoint_secrets
  FOR EACH ROW WHEN (NEW.state <> 'RETIRED') EXECUTE FUNCTION refuse_frozen_secret();
