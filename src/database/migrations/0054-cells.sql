-- Cells: regions with databases of their own for events and deliveries (decision 35). This database may be the home
-- cell's, which the others read tenants from and send their compliance logs to, or that of another cell.

-- The transaction that last changed a tenant, so that cells read only what has changed. NULL: before this migration.
-- Migration 0059 creates the index.
ALTER TABLE tenants ADD COLUMN changed_by xid8;
CREATE FUNCTION note_tenant_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.changed_by := pg_current_xact_id();
  RETURN NEW;
END $$;
CREATE TRIGGER tenants_change BEFORE INSERT OR UPDATE ON tenants
  FOR EACH ROW EXECUTE FUNCTION note_tenant_change();

CREATE POLICY cell_rows ON tenants FOR SELECT TO signet_cell USING (true);
GRANT SELECT (id, name, region, state, platform, held_at, limits, portal_brand, created_at, changed_by)
  ON tenants TO signet_cell;

-- Tenants after `after_id` that a transaction since `since` has changed; all of them if it is null. Transactions that
-- are still open count as changes after `upto`, which is `since` of the next pass.
CREATE FUNCTION tenants_for_cells(since xid8, after_id text, at_most int) RETURNS TABLE (
  id text, name text, region text, state text, platform boolean, held_at timestamptz, limits jsonb, portal_brand jsonb,
  created_at timestamptz, upto xid8
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT changed.*, pg_snapshot_xmin(pg_current_snapshot()) AS upto
    FROM (SELECT) AS always
    LEFT JOIN LATERAL (
      SELECT t.id, t.name, t.region, t.state, t.platform, t.held_at, t.limits, t.portal_brand, t.created_at
        FROM public.tenants t
       WHERE (since IS NULL OR t.changed_by >= since) AND t.id > after_id
       ORDER BY t.id LIMIT at_most
    ) AS changed ON true
$$;
REVOKE ALL ON FUNCTION tenants_for_cells(xid8, text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_for_cells(xid8, text, int) TO signet_cell;

-- How far the log of each cell has come.
CREATE TABLE cell_logs (
  cell      text PRIMARY KEY,
  -- The first login that sent entries of the cell. No other may.
  login     name NOT NULL,
  -- Number of its entries that are in the log of the home cell.
  size      bigint NOT NULL DEFAULT 0,
  -- Leaf hash of the last of them in the cell's own log; null before the first.
  last_leaf bytea
);
ALTER TABLE cell_logs ENABLE ROW LEVEL SECURITY;
ALTER TABLE cell_logs FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_rows ON cell_logs TO signet_owner USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON cell_logs FOR SELECT TO signet_operator USING (true);
GRANT SELECT ON cell_logs TO signet_operator;

-- Appends entries of a cell's own log, from its entry `first` on, and returns how many are there. The parts of the
-- entries are those of append_compliance_entry. Repetitions append nothing; a gap or a changed past is an error.
CREATE FUNCTION append_cell_entries(
  cell_name text, first bigint, befores bytea[], afters bytea[], leaf_before bytea, leaves bytea[]
) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known   public.cell_logs;
  members jsonb;
  item    int;
BEGIN
  INSERT INTO public.cell_logs (cell, login) VALUES (cell_name, session_user) ON CONFLICT DO NOTHING;
  SELECT * INTO STRICT known FROM public.cell_logs WHERE cell = cell_name FOR UPDATE;
  IF known.login <> session_user THEN
    RAISE EXCEPTION 'the log of cell % belongs to another login', cell_name USING ERRCODE = 'insufficient_privilege';
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
  WHILE item < cardinality(befores) LOOP
    item := item + 1;
    members := convert_from(befores[item] || '0'::bytea || afters[item], 'UTF8')::jsonb;
    IF members #>> '{details,cell}' IS DISTINCT FROM cell_name
       OR (members #>> '{details,cell_index}')::bigint IS DISTINCT FROM known.size THEN
      RAISE EXCEPTION 'an entry names its cell and its place there' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM public.append_compliance_entry(befores[item], afters[item]);
    known.size := known.size + 1;
    known.last_leaf := leaves[item];
  END LOOP;
  UPDATE public.cell_logs SET size = known.size, last_leaf = known.last_leaf WHERE cell = cell_name;
  RETURN known.size;
END $$;
REVOKE ALL ON FUNCTION append_cell_entries(text, bigint, bytea[], bytea[], bytea, bytea[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION append_cell_entries(text, bigint, bytea[], bytea[], bytea, bytea[]) TO signet_cell;

-- Returns how many entries of a cell are here.
CREATE FUNCTION cell_log_size(cell_name text) RETURNS bigint
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT size FROM public.cell_logs WHERE cell = cell_name), 0)
$$;
REVOKE ALL ON FUNCTION cell_log_size(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION cell_log_size(text) TO signet_cell;

-- Principals and credentials are in the home cell, but the portal is where the deliveries are.
ALTER TABLE portal_links
  DROP CONSTRAINT portal_links_principal_id_fkey, DROP CONSTRAINT portal_links_credential_id_fkey;
ALTER TABLE portal_sessions
  DROP CONSTRAINT portal_sessions_principal_id_fkey, DROP CONSTRAINT portal_sessions_credential_id_fkey;
