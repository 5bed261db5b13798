-- A replaced credential ends by plan. Its last tokens live on, so nothing is revoked: its end has an entry of its own.
ALTER TABLE credentials
  -- Index of the entry `credential.ended` in the compliance log: the order in which other cells learn of ends. NULL: not
  -- ended by plan, or by a process of version 0.3.0, which published a revocation.
  ADD COLUMN end_index bigint;
CREATE INDEX credentials_by_end ON credentials (end_index) WHERE end_index IS NOT NULL;
GRANT UPDATE (end_index) ON credentials TO signet_rotator;

-- For credential_ends_for_cells, which reads as the owner.
CREATE POLICY owner_ends ON credentials FOR SELECT TO signet_owner USING (end_index IS NOT NULL);

-- The sweep leaves notices of ends, and of nothing else.
CREATE POLICY rotator_adds ON revocation_notices FOR INSERT TO signet_rotator WITH CHECK (kind = 'ended');
GRANT INSERT (kind, target, tenant_id, reason, actor, at) ON revocation_notices TO signet_rotator;

-- Ends of credentials after an index, oldest first, and the newest index, -1 without any. With null there are none, only
-- that index. An index is visible only after all before it, because the log's head stays locked until the commit.
CREATE FUNCTION credential_ends_for_cells(after_index bigint, at_most int) RETURNS TABLE (
  newest bigint, end_index bigint, tenant_id text, target text, at timestamptz
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.newest, e.end_index, e.tenant_id, e.id, e.revoked_at
    FROM (SELECT coalesce(max(n.end_index), -1) AS newest FROM public.credentials n) AS c
    LEFT JOIN LATERAL (
      SELECT * FROM public.credentials n WHERE n.end_index > after_index ORDER BY n.end_index LIMIT at_most
    ) AS e ON true
   ORDER BY e.end_index
$$;
REVOKE ALL ON FUNCTION credential_ends_for_cells(bigint, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION credential_ends_for_cells(bigint, int) TO signet_cell;

-- The last end of the home cell that is applied here. NULL: none yet.
ALTER TABLE home_position ADD COLUMN end_index bigint;
