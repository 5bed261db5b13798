-- Proofs of the revocations for processes that follow them through hubs, which are not trusted (decision 33).

-- SHA-256 chain over the lines of all revocations since this migration.
ALTER TABLE rev_clock ADD COLUMN head bytea NOT NULL DEFAULT sha256('');

-- Keys of the proofs (HMAC-SHA-256). Only the functions below read them. The pads are those of RFC 2104.
CREATE TABLE lease_keys (
  -- The first 16 hexadecimal digits of the key's SHA-256.
  id         text PRIMARY KEY,
  inner_pad  bytea NOT NULL,
  outer_pad  bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What the chain and the processes say of a revocation. Targets contain no colon.
CREATE FUNCTION revocation_line(seq bigint, kind text, target text, at timestamptz, issued_before bigint) RETURNS text
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat_ws(':', seq, kind, target, (extract(epoch FROM at) * 1000000)::bigint, coalesce(issued_before::text, ''))
$$;

-- The authentication codes of a statement, one for each key: `id=code`, separated by commas. Empty on a standby: it may
-- lag, so it must prove nothing.
CREATE FUNCTION lease_codes(statement text) RETURNS text
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(string_agg(
      id || '=' || encode(sha256(outer_pad || sha256(inner_pad || convert_to(statement, 'UTF8'))), 'hex'),
      ',' ORDER BY created_at DESC, id), '')
    FROM public.lease_keys WHERE NOT pg_is_in_recovery()
$$;
REVOKE ALL ON FUNCTION lease_codes(text) FROM PUBLIC;

-- Extends the chain, and tells hubs at the commit. Every publication holds the lock of rev_clock already.
CREATE FUNCTION extend_revocation_chain() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  line  text := public.revocation_line(NEW.seq, NEW.kind, NEW.target, NEW.at, NEW.issued_before);
  clock public.rev_clock;
BEGIN
  UPDATE public.rev_clock SET head = sha256(head || convert_to(line, 'UTF8')) WHERE id = 1 RETURNING * INTO clock;
  PERFORM pg_notify('signet_revocation_lines', concat_ws(' ', line, clock.epoch, encode(clock.head, 'hex'),
    public.lease_codes(concat_ws(' ', 'signet-revocation-1', clock.epoch, clock.seq, encode(clock.head, 'hex')))));
  RETURN NULL;
END $$;
CREATE TRIGGER revocations_chain AFTER INSERT ON revocations
  FOR EACH ROW EXECUTE FUNCTION extend_revocation_chain();

-- The public keys that tokens are checked with, as one text.
CREATE FUNCTION verification_keys() RETURNS text
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(string_agg(json_build_array(kid, alg, public_jwk, state,
      (extract(epoch FROM activated_at) * 1000)::bigint, (extract(epoch FROM retired_at) * 1000)::bigint,
      (extract(epoch FROM revoked_at) * 1000)::bigint)::text, E'\n' ORDER BY activated_at, kid), '')
    FROM public.signing_keys
   WHERE state <> 'GONE' OR revoked_at >= clock_timestamp() - interval '20 minutes'
$$;
REVOKE ALL ON FUNCTION verification_keys() FROM PUBLIC;

-- Proves to whoever drew `nonce` what this database knew after that. `keys` is null if the caller knows them.
CREATE FUNCTION prove_revocations(nonce bytea, known_keys text) RETURNS TABLE (
  clock bigint, epoch uuid, head text, keys_digest text, keys text, at_us bigint, codes text
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state public.rev_clock;
BEGIN
  IF length(nonce) <> 32 THEN
    RAISE EXCEPTION 'a nonce has 32 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT * INTO STRICT state FROM public.rev_clock WHERE id = 1;
  clock := state.seq;
  epoch := state.epoch;
  head := encode(state.head, 'hex');
  keys := public.verification_keys();
  keys_digest := encode(sha256(convert_to(keys, 'UTF8')), 'hex');
  IF keys_digest = known_keys THEN
    keys := NULL;
  END IF;
  at_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  codes := public.lease_codes(
    concat_ws(' ', 'signet-lease-1', epoch, clock, head, keys_digest, at_us, encode(nonce, 'hex')));
  RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION prove_revocations(bytea, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION prove_revocations(bytea, text) TO signet_edge;

-- All live revocations, with a proof that they are all.
CREATE FUNCTION revocation_snapshot() RETURNS TABLE (clock bigint, epoch uuid, head text, lines text, codes text)
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state public.rev_clock;
BEGIN
  SELECT * INTO STRICT state FROM public.rev_clock WHERE id = 1;
  clock := state.seq;
  epoch := state.epoch;
  head := encode(state.head, 'hex');
  SELECT coalesce(string_agg(
      public.revocation_line(r.seq, r.kind, r.target, r.at, r.issued_before), E'\n' ORDER BY r.seq), '')
    INTO lines FROM public.revocations r
   WHERE r.kind <> 'policy' AND (r.expires_at IS NULL OR r.expires_at > clock_timestamp());
  codes := public.lease_codes(concat_ws(' ', 'signet-snapshot-1', epoch, clock, head,
    encode(sha256(convert_to(lines, 'UTF8')), 'hex')));
  RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION revocation_snapshot() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION revocation_snapshot() TO signet_edge;

ALTER TABLE revocation_followers
  -- The hub through which a process follows, by its lock_key; null for one that follows the database itself.
  ADD COLUMN via int,
  ADD COLUMN version text;

CREATE OR REPLACE FUNCTION revocation_processes(number bigint, lock_class int) RETURNS TABLE (
  lock_key int, process text, region text, lease_ms int, connected boolean, acked boolean, ms int,
  slowest_ms int, reported boolean, recorded jsonb
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH held AS MATERIALIZED (
    SELECT l.objid FROM pg_locks l
    JOIN pg_database here ON here.oid = l.database AND here.datname = current_database()
    WHERE l.locktype = 'advisory' AND l.classid = lock_class::oid AND l.objsubid = 2 AND l.granted
  ), followers AS (
    SELECT follower.*,
      EXISTS (SELECT FROM held WHERE held.objid = coalesce(follower.via, follower.lock_key)::oid) AS connected
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

-- The connected followers, counted. `behind` have not acknowledged the last revocation, which is `behind_ms` old.
CREATE FUNCTION revocation_follower_counts(lock_class int) RETURNS TABLE (
  region text, process text, version text, lease_ms int, connected int, behind int, behind_ms float8
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH held AS MATERIALIZED (
    SELECT l.objid FROM pg_locks l
    JOIN pg_database here ON here.oid = l.database AND here.datname = current_database()
    WHERE l.locktype = 'advisory' AND l.classid = lock_class::oid AND l.objsubid = 2 AND l.granted
  )
  SELECT f.region, f.process, f.version, max(f.lease_ms), count(*)::int,
    (count(*) FILTER (WHERE f.seq < c.seq))::int,
    (extract(epoch FROM clock_timestamp() - last.at) * 1000)::float8
  FROM public.revocation_followers f
  CROSS JOIN public.rev_clock c
  LEFT JOIN public.revocations last ON last.seq = c.seq
  WHERE coalesce(f.via, f.lock_key)::oid IN (SELECT objid FROM held)
  GROUP BY f.region, f.process, f.version, last.at
  ORDER BY f.region NULLS FIRST, f.process, f.version
  LIMIT 200
$$;
REVOKE ALL ON FUNCTION revocation_follower_counts(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION revocation_follower_counts(int) TO signet_operator;
