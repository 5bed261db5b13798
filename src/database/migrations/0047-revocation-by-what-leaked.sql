-- Emergency revocation by what leaked, and receipts that name the processes.

-- A client secret is found by its MAC, whatever its state: an ended one still yields its successor for a while.
CREATE INDEX secret_versions_mac ON secret_versions (mac);
-- A producer secret is found by its fingerprint, and then compared.
CREATE INDEX producer_secrets_fingerprint ON producer_secrets (fingerprint) WHERE revoked_at IS NULL;

-- A tenant finds its own secrets, but cannot read MACs.
CREATE FUNCTION find_client_secret(macs bytea[]) RETURNS TABLE (credential_id text, version int)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT v.credential_id, v.version FROM public.secret_versions v
   WHERE v.mac = ANY (macs)
     AND (current_setting('role') = 'signet_operator' OR v.tenant_id = public.current_tenant())
   LIMIT 1
$$;
REVOKE ALL ON FUNCTION find_client_secret(bytea[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_client_secret(bytea[]) TO signet_api, signet_operator;

-- Operators may end a producer secret, but change nothing else of it.
GRANT SELECT, UPDATE (secret, revoked_at) ON producer_secrets TO signet_operator;
CREATE POLICY operator_reads ON producer_secrets FOR SELECT TO signet_operator USING (true);
CREATE POLICY operator_revokes ON producer_secrets FOR UPDATE TO signet_operator
  USING (true) WITH CHECK (revoked_at IS NOT NULL AND secret IS NULL);

-- Null in rows of an earlier version's processes.
ALTER TABLE revocation_followers
  ADD COLUMN region text,
  -- How long an answer of the database lets the process admit tokens, in milliseconds.
  ADD COLUMN lease_ms int,
  -- Last sign of life, once a minute. A process that stops removes its row.
  ADD COLUMN seen_at timestamptz;

-- The processes that a revocation's receipt named when it was recorded.
ALTER TABLE revocations ADD COLUMN processes jsonb;

-- The followers of a revocation, one row each: those that are connected, and those that lost their connection less than
-- two minutes ago. Without any, one row whose lock_key is null. `ms` is the time from the revocation's entry to the
-- acknowledgement, by this server's clock; null once the receipt is recorded or ten seconds have passed, because the
-- followers have moved on since.
CREATE FUNCTION revocation_processes(number bigint, lock_class int) RETURNS TABLE (
  lock_key int, process text, region text, lease_ms int, connected boolean, acked boolean, ms int,
  slowest_ms int, reported boolean, recorded jsonb
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH held AS MATERIALIZED (
    SELECT l.objid FROM pg_locks l
    JOIN pg_database here ON here.oid = l.database AND here.datname = current_database()
    WHERE l.locktype = 'advisory' AND l.classid = lock_class::oid AND l.objsubid = 2 AND l.granted
  ), followers AS (
    SELECT follower.*, EXISTS (SELECT FROM held WHERE held.objid = follower.lock_key::oid) AS connected
      FROM public.revocation_followers follower
  )
  SELECT f.lock_key, f.process, f.region, f.lease_ms, f.connected, f.seq >= number,
    CASE WHEN f.seq >= number AND r.slowest_ms IS NULL AND r.at > clock_timestamp() - interval '10 seconds'
      THEN ceil(extract(epoch FROM f.applied_at - r.at) * 1000)::int END,
    r.slowest_ms, r.propagated_at IS NOT NULL, r.processes
  FROM public.revocations r
  LEFT JOIN followers f ON f.connected OR f.seen_at > clock_timestamp() - interval '2 minutes'
  WHERE r.seq = number
  ORDER BY f.process, f.lock_key
$$;
REVOKE ALL ON FUNCTION revocation_processes(bigint, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION revocation_processes(bigint, int) TO signet_issuer;

-- Records once how a revocation has spread, and at which processes.
CREATE FUNCTION report_propagation(number bigint, slowest int, named jsonb, before_index bytea, after_index bytea) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE public.revocations SET slowest_ms = slowest, processes = named, propagated_at = clock_timestamp()
    WHERE seq = number AND propagated_at IS NULL;
  IF FOUND THEN
    PERFORM public.append_compliance_entry(before_index, after_index);
  END IF;
END $$;
REVOKE ALL ON FUNCTION report_propagation(bigint, int, jsonb, bytea, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION report_propagation(bigint, int, jsonb, bytea, bytea) TO signet_issuer;
