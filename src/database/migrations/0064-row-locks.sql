-- Rows that transactions lock in place of advisory locks. Every login that may connect can hold those, also of an edge or
-- another cell. These rows only roles of the service can lock.
CREATE TABLE lock_slots (
  id int PRIMARY KEY
);
INSERT INTO lock_slots SELECT generate_series(0, 1023);
ALTER TABLE lock_slots ENABLE ROW LEVEL SECURITY;
ALTER TABLE lock_slots FORCE ROW LEVEL SECURITY;
CREATE POLICY service_rows ON lock_slots TO signet_api, signet_operator USING (true);
GRANT SELECT, UPDATE ON lock_slots TO signet_api, signet_operator;
