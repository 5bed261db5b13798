-- The compliance log (a Merkle tree of RFC 6962 over canonical entries) and the sequence of revocations.

-- There is one log, number 1: a log for each tenant would not show when a whole tenant's is gone.
CREATE TABLE clog (
  log_id    int NOT NULL,
  idx       bigint NOT NULL CONSTRAINT clog_idx CHECK (idx >= 0),
  -- Canonical JSON. The other columns repeat what it says, for queries; the bytes are what counts.
  entry     bytea NOT NULL,
  leaf_hash bytea NOT NULL,
  at        timestamptz NOT NULL,
  type      text NOT NULL,
  -- No reference: an entry outlives what it is about.
  tenant_id text COLLATE "C",
  PRIMARY KEY (log_id, idx)
);
CREATE INDEX clog_of_tenant ON clog (tenant_id, idx);

CREATE TABLE clog_head (
  log_id   int PRIMARY KEY,
  size     bigint NOT NULL,
  -- Roots of the complete subtrees, largest first: one for each bit that is set in `size`.
  frontier bytea[] NOT NULL,
  root     bytea NOT NULL
);
INSERT INTO clog_head VALUES (1, 0, '{}', sha256(''));

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the compliance log is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;

-- ALWAYS: replication mode, which a superuser can switch on for a session, does not pass them by.
CREATE TRIGGER clog_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON clog
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE clog ENABLE ALWAYS TRIGGER clog_append_only;
CREATE TRIGGER clog_head_stays BEFORE DELETE OR TRUNCATE ON clog_head
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE clog_head ENABLE ALWAYS TRIGGER clog_head_stays;
CREATE TRIGGER clog_head_grows BEFORE UPDATE ON clog_head
  FOR EACH ROW WHEN (NEW.log_id <> OLD.log_id OR NEW.size <> OLD.size + 1) EXECUTE FUNCTION refuse_change();
ALTER TABLE clog_head ENABLE ALWAYS TRIGGER clog_head_grows;

ALTER TABLE clog ENABLE ROW LEVEL SECURITY;
ALTER TABLE clog FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_rows ON clog TO signet_owner USING (true) WITH CHECK (true);
CREATE POLICY tenant_rows ON clog FOR SELECT TO signet_api USING (tenant_id = current_tenant());
CREATE POLICY audit_rows ON clog FOR SELECT TO signet_audit USING (true);
GRANT SELECT ON clog TO signet_api, signet_audit;
GRANT SELECT ON clog_head TO signet_audit;

-- The one way to write: no role may insert. The caller gives the entry's bytes but not its place, its hash or the tree;
-- a part of the service that went astray can add an entry and nothing else. The head's row lock is held from here to the
-- commit, so this is the last step of a transaction. A tenant's request speaks for that tenant only.
CREATE FUNCTION append_compliance_entry(before_index bytea, after_index bytea, OUT place bigint, OUT leaf bytea)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  head    public.clog_head;
  bytes   bytea;
  members jsonb;
  node    bytea;
  peaks   bytea[];
  rest    bigint;
BEGIN
  SELECT * INTO STRICT head FROM public.clog_head WHERE log_id = 1 FOR UPDATE;
  place := head.size;
  bytes := before_index || convert_to(place::text, 'UTF8') || after_index;
  members := convert_from(bytes, 'UTF8')::jsonb;
  IF (members ->> 'idx')::bigint IS DISTINCT FROM place THEN
    RAISE EXCEPTION 'a compliance entry names its own place' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF current_setting('role') = 'signet_api' AND members ->> 'tenant' IS DISTINCT FROM public.current_tenant() THEN
    RAISE EXCEPTION 'a compliance entry of another tenant' USING ERRCODE = 'insufficient_privilege';
  END IF;

  leaf := sha256('\x00'::bytea || bytes);
  node := leaf;
  peaks := head.frontier;
  rest := place;
  WHILE rest % 2 = 1 LOOP
    node := sha256('\x01'::bytea || peaks[cardinality(peaks)] || node);
    peaks := trim_array(peaks, 1);
    rest := rest / 2;
  END LOOP;
  peaks := array_append(peaks, node);
  FOR peak IN REVERSE cardinality(peaks) - 1 .. 1 LOOP
    node := sha256('\x01'::bytea || peaks[peak] || node);
  END LOOP;

  INSERT INTO public.clog (log_id, idx, entry, leaf_hash, at, type, tenant_id)
    VALUES (1, place, bytes, leaf, (members ->> 'at')::timestamptz, members ->> 'type', members ->> 'tenant');
  UPDATE public.clog_head SET size = place + 1, frontier = peaks, root = node WHERE log_id = 1;
END $$;
REVOKE ALL ON FUNCTION append_compliance_entry(bytea, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION append_compliance_entry(bytea, bytea)
  TO signet_api, signet_operator, signet_issuer, signet_worker;

ALTER TABLE principals
  ADD COLUMN state text NOT NULL DEFAULT 'ACTIVE' CONSTRAINT principals_state CHECK (state IN ('ACTIVE', 'REVOKED')),
  ADD COLUMN revoked_at timestamptz;

-- A row and not a SEQUENCE: its lock makes the numbers gapless and puts them into the order of the commits.
CREATE TABLE rev_clock (
  id    int PRIMARY KEY CONSTRAINT rev_clock_one CHECK (id = 1),
  seq   bigint NOT NULL,
  epoch uuid NOT NULL
);
INSERT INTO rev_clock VALUES (1, 0, gen_random_uuid());

CREATE TABLE revocations (
  seq        bigint PRIMARY KEY,
  id         text COLLATE "C" NOT NULL CONSTRAINT revocations_id_once UNIQUE,
  kind       text NOT NULL CONSTRAINT revocations_kind
             CHECK (kind IN ('credential', 'principal', 'tenant', 'jti', 'kid', 'cert')),
  target     text COLLATE "C" NOT NULL,
  tenant_id  text COLLATE "C",
  reason     text,
  actor      text NOT NULL,
  at         timestamptz NOT NULL,
  -- Until when tokens must be compared with it: the persistent state of its target does the rest. NULL: for ever.
  expires_at timestamptz,
  log_index  bigint NOT NULL,
  leaf_hash  bytea NOT NULL
);
CREATE INDEX revocations_of_target ON revocations (kind, target, seq);
CREATE INDEX revocations_live ON revocations (expires_at);

ALTER TABLE revocations ENABLE ROW LEVEL SECURITY;
ALTER TABLE revocations FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_rows ON revocations TO signet_owner USING (true) WITH CHECK (true);
CREATE POLICY tenant_rows ON revocations FOR SELECT TO signet_api USING (tenant_id = current_tenant());
CREATE POLICY operator_rows ON revocations FOR SELECT TO signet_operator USING (true);
CREATE POLICY edge_rows ON revocations FOR SELECT TO signet_edge USING (true);
CREATE POLICY worker_rows ON revocations TO signet_worker USING (kind = 'jti' AND expires_at < now() - interval '1 day');
GRANT SELECT ON revocations TO signet_api, signet_operator;
GRANT SELECT (seq, kind, target, expires_at) ON revocations TO signet_edge;
GRANT SELECT ON rev_clock TO signet_edge;
GRANT SELECT (seq, kind, expires_at), DELETE ON revocations TO signet_worker;

-- One revocation: compliance entry, number, row and notification. Without `anew` a target that is revoked already keeps
-- its first one. The head of the log is locked before the clock, here and everywhere: the order in which a transaction
-- appends and publishes cannot make two of them wait for each other.
CREATE FUNCTION publish_revocation(
  revocation_id text, revocation_kind text, revocation_target text, tenant text, stated_reason text, acting text,
  life interval, anew boolean, before_index bytea, after_index bytea
) RETURNS public.revocations
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  published public.revocations;
  appended  record;
  sequence  bigint;
BEGIN
  IF current_setting('role') = 'signet_api'
      AND (revocation_kind NOT IN ('credential', 'jti') OR tenant IS DISTINCT FROM public.current_tenant()) THEN
    RAISE EXCEPTION 'a revocation of another tenant' USING ERRCODE = 'insufficient_privilege';
  END IF;
  PERFORM FROM public.clog_head WHERE log_id = 1 FOR UPDATE;
  IF NOT anew THEN
    SELECT * INTO published FROM public.revocations
      WHERE kind = revocation_kind AND target = revocation_target ORDER BY seq DESC LIMIT 1;
    IF FOUND THEN
      RETURN published;
    END IF;
  END IF;
  -- Without this a crash could take back what every process has obeyed already.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  SELECT * INTO appended FROM public.append_compliance_entry(before_index, after_index);
  UPDATE public.rev_clock SET seq = seq + 1 WHERE id = 1 RETURNING seq INTO sequence;
  INSERT INTO public.revocations
      (seq, id, kind, target, tenant_id, reason, actor, at, expires_at, log_index, leaf_hash)
    VALUES (sequence, revocation_id, revocation_kind, revocation_target, tenant, stated_reason, acting,
      clock_timestamp(), clock_timestamp() + life, appended.place, appended.leaf)
    RETURNING * INTO published;
  PERFORM pg_notify('signet_revocations', concat_ws(':', sequence, revocation_kind, revocation_target));
  RETURN published;
END $$;
REVOKE ALL ON FUNCTION publish_revocation(text, text, text, text, text, text, interval, boolean, bytea, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION publish_revocation(text, text, text, text, text, text, interval, boolean, bytea, bytea)
  TO signet_api, signet_operator, signet_issuer, signet_worker;

-- A tenant may end its own credentials, not bring them back.
GRANT UPDATE (state, revoked_at) ON credentials TO signet_api;
CREATE POLICY tenant_revokes ON credentials FOR UPDATE TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant() AND state = 'REVOKED');
