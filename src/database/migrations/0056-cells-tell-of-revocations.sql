-- Cells publish `credential.revoked` to the endpoints that they have (decision 35).

-- Revocations of credentials after `after_seq`, oldest first, and the sequence's last number. With null there are none,
-- only that number. A number is visible only after all before it, because publication locks the sequence until its commit.
CREATE FUNCTION credential_revocations_for_cells(after_seq bigint, at_most int) RETURNS TABLE (
  clock bigint, seq bigint, tenant_id text, target text, reason text, actor text, at timestamptz
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.seq, r.seq, r.tenant_id, r.target, r.reason, r.actor, r.at
    FROM public.rev_clock c
    LEFT JOIN LATERAL (
      SELECT * FROM public.revocations n
       WHERE n.kind = 'credential' AND n.tenant_id IS NOT NULL AND n.seq > after_seq
       ORDER BY n.seq LIMIT at_most
    ) AS r ON true
   ORDER BY r.seq
$$;
REVOKE ALL ON FUNCTION credential_revocations_for_cells(bigint, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION credential_revocations_for_cells(bigint, int) TO signet_cell;

-- The last revocation of the home cell whose event is published here. No row: this cell has just begun, or is the home
-- cell.
CREATE TABLE home_position (
  id  int PRIMARY KEY CONSTRAINT home_position_one CHECK (id = 1),
  seq bigint NOT NULL
);
ALTER TABLE home_position ENABLE ROW LEVEL SECURITY;
ALTER TABLE home_position FORCE ROW LEVEL SECURITY;
CREATE POLICY operator_rows ON home_position TO signet_operator USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, UPDATE ON home_position TO signet_operator;
