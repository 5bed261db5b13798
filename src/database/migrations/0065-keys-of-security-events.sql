-- Signing keys have a purpose: access tokens and status lists, or security event tokens (SET). A worker, which talks to
-- hostile receivers, opens only the latter.

ALTER TABLE signing_keys
  ADD COLUMN purpose text NOT NULL DEFAULT 'access',
  -- The life of a key of purpose 'set', as state, activated_at and retired_at are that of the others.
  ADD COLUMN set_state text,
  ADD COLUMN set_activated_at timestamptz,
  ADD COLUMN set_retired_at timestamptz,
  ADD CONSTRAINT signing_keys_purpose CHECK (purpose IN ('access', 'set')) NOT VALID,
  ADD CONSTRAINT signing_keys_set_state CHECK (set_state IN ('NEXT', 'CURRENT', 'PREVIOUS', 'GONE')) NOT VALID,
  ADD CONSTRAINT signing_keys_life_of_set CHECK ((purpose = 'set') = (set_state IS NOT NULL)) NOT VALID;
CREATE UNIQUE INDEX signing_keys_one_current_set ON signing_keys (set_state) WHERE set_state = 'CURRENT';
CREATE UNIQUE INDEX signing_keys_one_next_set ON signing_keys (set_state) WHERE set_state = 'NEXT';

-- Version 0.3.0 takes every row for a key of access tokens. It must publish these keys and never sign with them: for it,
-- they are the oldest keys, replaced, but with an end that does not come. It may revoke them.
CREATE FUNCTION show_set_key() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.revoked_at IS NOT NULL THEN
    NEW.set_state := 'GONE';
  END IF;
  NEW.state := CASE NEW.set_state WHEN 'GONE' THEN 'GONE' ELSE 'PREVIOUS' END;
  NEW.activated_at := timestamptz 'epoch';
  NEW.retired_at := timestamptz '9999-01-01 00:00:00+00';
  RETURN NEW;
END $$;
CREATE TRIGGER signing_keys_show_set BEFORE INSERT OR UPDATE ON signing_keys
  FOR EACH ROW WHEN (NEW.purpose = 'set') EXECUTE FUNCTION show_set_key();

-- Not forced: verification_keys() reads as the owner.
ALTER TABLE signing_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY operator_rows ON signing_keys TO signet_operator USING (true) WITH CHECK (true);
CREATE POLICY issuer_rows ON signing_keys FOR SELECT TO signet_issuer USING (true);
CREATE POLICY edge_rows ON signing_keys FOR SELECT TO signet_edge USING (purpose = 'access');
CREATE POLICY worker_rows ON signing_keys FOR SELECT TO signet_worker USING (purpose = 'set');
GRANT SELECT ON signing_keys TO signet_worker;

-- As in migration 0053, for access tokens alone.
CREATE OR REPLACE FUNCTION verification_keys() RETURNS text
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(string_agg(json_build_array(kid, alg, public_jwk, state,
      (extract(epoch FROM activated_at) * 1000)::bigint, (extract(epoch FROM retired_at) * 1000)::bigint,
      (extract(epoch FROM revoked_at) * 1000)::bigint)::text, E'\n' ORDER BY activated_at, kid), '')
    FROM public.signing_keys
   WHERE purpose = 'access' AND (state <> 'GONE' OR revoked_at >= clock_timestamp() - interval '20 minutes')
$$;
