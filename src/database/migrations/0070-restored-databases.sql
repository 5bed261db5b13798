-- A dump carries transaction ids to another server, whose own may be far lower. Each then counted as a change, so every
-- cell read every tenant each second until the server had caught up. An id that this server has not given yet is another's.
CREATE OR REPLACE FUNCTION tenants_for_cells(since xid8, after_id text, at_most int) RETURNS TABLE (
  id text, name text, region text, state text, platform boolean, held_at timestamptz, limits jsonb, portal_brand jsonb,
  created_at timestamptz, upto xid8
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT changed.*, pg_snapshot_xmin(pg_current_snapshot()) AS upto
    FROM (SELECT) AS always
    LEFT JOIN LATERAL (
      SELECT t.id, t.name, t.region, t.state, t.platform, t.held_at, t.limits, t.portal_brand, t.created_at
        FROM public.tenants t
       WHERE (since IS NULL OR t.changed_by >= since AND t.changed_by < pg_snapshot_xmax(pg_current_snapshot()))
         AND t.id > after_id
       ORDER BY t.id LIMIT at_most
    ) AS changed ON true
$$;

-- When the epoch was changed: the last step of a restore. `signet doctor` then expects that everything is overdue.
ALTER TABLE rev_clock ADD COLUMN epoch_at timestamptz;
CREATE FUNCTION note_epoch() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.epoch_at := clock_timestamp();
  RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION note_epoch() FROM PUBLIC;
CREATE TRIGGER rev_clock_epoch BEFORE UPDATE OF epoch ON rev_clock FOR EACH ROW EXECUTE FUNCTION note_epoch();
GRANT SELECT (epoch_at) ON rev_clock TO signet_worker;
