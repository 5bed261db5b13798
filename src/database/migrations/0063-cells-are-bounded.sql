-- What a cell that was taken over can do to the home cell ends with its own log (decision 35).

-- A login belongs to a cell from its creation on: `signet migrate` writes the row. Before, the first login to name a cell
-- kept the name.
ALTER TABLE cell_logs ADD COLUMN last_at timestamptz;

-- Entries wait here until the home cell has built its own from them. Whoever appends to a log holds its head until the
-- commit, and every revocation waits for that head. A session of a cell must not hold it.
CREATE TABLE cell_entries (
  cell         text NOT NULL,
  -- Index in the cell's log.
  place        bigint NOT NULL,
  -- The parts that the cell has sent, as those of append_compliance_entry.
  before_index bytea NOT NULL,
  after_index  bytea NOT NULL,
  arrived_at   timestamptz NOT NULL,
  PRIMARY KEY (cell, place)
);
ALTER TABLE cell_entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE cell_entries FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_rows ON cell_entries TO signet_owner USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON cell_entries TO signet_operator USING (true);
GRANT SELECT, DELETE ON cell_entries TO signet_operator;

-- As in migration 0054, but the login must be that of the cell, and the entries wait. Their number, size and time are
-- bounded. The home cell checks the rest.
CREATE OR REPLACE FUNCTION append_cell_entries(
  cell_name text, first bigint, befores bytea[], afters bytea[], leaf_before bytea, leaves bytea[]
) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known   public.cell_logs;
  members jsonb;
  item    int;
  said    timestamptz;
BEGIN
  SELECT * INTO known FROM public.cell_logs WHERE cell = cell_name AND login = session_user FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the login % is not that of the cell %', session_user, cell_name
      USING ERRCODE = 'insufficient_privilege', HINT = 'signet migrate in the home cell binds a login to its cell.';
  END IF;
  IF first > known.size THEN
    RETURN known.size;
  END IF;
  item := known.size - first;
  -- The entry before the first new one must be the one that was sent then: a cell that was restored from a backup has
  -- another.
  IF item > cardinality(leaves)
     OR known.last_leaf IS DISTINCT FROM (CASE WHEN item = 0 THEN leaf_before ELSE leaves[item] END) THEN
    RAISE EXCEPTION 'the log of cell % is not the one whose % entries are here', cell_name, known.size
      USING ERRCODE = 'data_exception';
  END IF;
  IF (SELECT count(*) FROM public.cell_entries WHERE cell = cell_name) + cardinality(befores) - item > 10000 THEN
    RAISE EXCEPTION 'too many entries of cell % wait for the home cell', cell_name
      USING ERRCODE = 'program_limit_exceeded';
  END IF;
  WHILE item < cardinality(befores) LOOP
    item := item + 1;
    IF octet_length(befores[item]) + octet_length(afters[item]) > 65536 THEN
      RAISE EXCEPTION 'an entry of a cell has at most 65536 bytes' USING ERRCODE = 'program_limit_exceeded';
    END IF;
    members := convert_from(befores[item] || '0'::bytea || afters[item], 'UTF8')::jsonb;
    IF members #>> '{details,cell}' IS DISTINCT FROM cell_name
       OR (members #>> '{details,cell_index}')::bigint IS DISTINCT FROM known.size THEN
      RAISE EXCEPTION 'an entry names its cell and its place there' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    said := (members ->> 'at')::timestamptz;
    -- The clocks of a cell's processes may differ. An entry from the future arrives when its time has come.
    IF said IS NULL OR said > clock_timestamp() + interval '5 minutes' OR said < known.last_at - interval '1 day' THEN
      RAISE EXCEPTION 'an entry of a cell is not from the future, nor a day older than the one before'
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO public.cell_entries (cell, place, before_index, after_index, arrived_at)
      VALUES (cell_name, known.size, befores[item], afters[item], clock_timestamp());
    known.size := known.size + 1;
    known.last_leaf := leaves[item];
    known.last_at := said;
  END LOOP;
  UPDATE public.cell_logs SET size = known.size, last_leaf = known.last_leaf, last_at = known.last_at
    WHERE cell = cell_name;
  RETURN known.size;
END $$;

-- What a portal session needs where the home cell's principals and credentials are not. NULL: from before.
ALTER TABLE portal_links ADD COLUMN client_id text, ADD COLUMN region text;
ALTER TABLE portal_sessions ADD COLUMN client_id text, ADD COLUMN region text;

-- When this cell last knew of no revocation that it has not applied to its portal sessions. NULL: before this migration.
ALTER TABLE home_position ADD COLUMN at timestamptz;
CREATE POLICY api_rows ON home_position FOR SELECT TO signet_api USING (true);
GRANT SELECT (at) ON home_position TO signet_api;

-- Ends the sessions and unused links of a revoked target; of all with the kind `all`.
CREATE FUNCTION end_portal_sessions_of(revoked_kind text, revoked text) RETURNS void
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  thumbprint text;
BEGIN
  IF revoked_kind = 'cert' AND revoked ~ '^[0-9A-Fa-f]{64}$' THEN
    thumbprint := rtrim(translate(encode(decode(revoked, 'hex'), 'base64'), E'+/\n', '-_'), '=');
  END IF;
  DELETE FROM public.portal_links WHERE CASE revoked_kind
    WHEN 'all' THEN true WHEN 'tenant' THEN tenant_id = revoked WHEN 'principal' THEN principal_id = revoked
    WHEN 'credential' THEN credential_id = revoked WHEN 'jti' THEN jti = revoked
    WHEN 'kid' THEN kid = revoked ELSE certificate_thumbprint = thumbprint END;
  DELETE FROM public.portal_sessions WHERE CASE revoked_kind
    WHEN 'all' THEN true WHEN 'tenant' THEN tenant_id = revoked WHEN 'principal' THEN principal_id = revoked
    WHEN 'credential' THEN credential_id = revoked WHEN 'jti' THEN jti = revoked
    WHEN 'kid' THEN kid = revoked ELSE certificate_thumbprint = thumbprint END;
END $$;
REVOKE ALL ON FUNCTION end_portal_sessions_of(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION end_portal_sessions_of(text, text) TO signet_operator;

CREATE OR REPLACE FUNCTION end_portal_sessions() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM public.end_portal_sessions_of(NEW.kind, NEW.target);
  RETURN NULL;
END $$;

-- As credential_revocations_for_cells, with every kind that ends portal sessions. That one stays for cells of 0.3.0.
CREATE FUNCTION revocations_for_cells(after_seq bigint, at_most int) RETURNS TABLE (
  clock bigint, seq bigint, kind text, tenant_id text, target text, reason text, actor text, at timestamptz
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.seq, r.seq, r.kind, r.tenant_id, r.target, r.reason, r.actor, r.at
    FROM public.rev_clock c
    LEFT JOIN LATERAL (
      SELECT * FROM public.revocations n
       WHERE n.kind <> 'policy' AND n.issued_before IS NULL AND n.seq > after_seq
       ORDER BY n.seq LIMIT at_most
    ) AS r ON true
   ORDER BY r.seq
$$;
REVOKE ALL ON FUNCTION revocations_for_cells(bigint, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION revocations_for_cells(bigint, int) TO signet_cell;
