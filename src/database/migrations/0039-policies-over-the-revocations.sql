-- A change of a tenant's policy (its limits, which credentials publish with a signature only) has a number among the
-- revocations. A process that follows these forgets the policy that it knows before it acknowledges the number.
ALTER TABLE revocations DROP CONSTRAINT revocations_kind,
  ADD CONSTRAINT revocations_kind CHECK (kind IN ('credential', 'principal', 'tenant', 'jti', 'kid', 'cert', 'policy'))
    NOT VALID; -- Migration 0059 validates it, without stopping anything.

-- Workers forget them like revocations of single tokens: there may be many, and the compliance log keeps what they were.
DROP POLICY worker_rows ON revocations;
CREATE POLICY worker_rows ON revocations TO signet_worker
  USING (kind IN ('jti', 'policy') AND expires_at < now() - interval '1 day');

-- After the change's own compliance entry, to which the row refers.
CREATE FUNCTION publish_policy_change(change_id text, tenant text, acting text, life interval) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  entry    record;
  sequence bigint;
BEGIN
  IF current_setting('role') = 'signet_api' AND tenant IS DISTINCT FROM public.current_tenant() THEN
    RAISE EXCEPTION 'a policy of another tenant' USING ERRCODE = 'insufficient_privilege';
  END IF;
  PERFORM FROM public.clog_head WHERE log_id = 1 FOR UPDATE;
  -- Without this a crash could take back what every process has obeyed already.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  SELECT idx, leaf_hash INTO STRICT entry FROM public.clog WHERE log_id = 1 ORDER BY idx DESC LIMIT 1;
  UPDATE public.rev_clock SET seq = seq + 1 WHERE id = 1 RETURNING seq INTO sequence;
  INSERT INTO public.revocations
      (seq, id, kind, target, tenant_id, actor, at, expires_at, log_index, leaf_hash, propagated_at)
    VALUES (sequence, change_id, 'policy', tenant, tenant, acting, clock_timestamp(), clock_timestamp() + life,
      entry.idx, entry.leaf_hash, clock_timestamp());
  PERFORM pg_notify('signet_revocations', concat_ws(':', sequence, 'policy', tenant));
  RETURN sequence;
END $$;
REVOKE ALL ON FUNCTION publish_policy_change(text, text, text, interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION publish_policy_change(text, text, text, interval) TO signet_api, signet_operator;
