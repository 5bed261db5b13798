-- What migrations 0038 to 0054 did with stored rows while their locks stopped everything (decision 36).
ALTER TABLE endpoints VALIDATE CONSTRAINT endpoints_disabled_reason;
ALTER TABLE revocations VALIDATE CONSTRAINT revocations_kind;
ALTER TABLE replay_jobs VALIDATE CONSTRAINT replay_jobs_kind;
ALTER TABLE replay_items VALIDATE CONSTRAINT replay_items_result;
ALTER TABLE credentials VALIDATE CONSTRAINT credentials_name;
ALTER TABLE portal_sessions
  VALIDATE CONSTRAINT portal_sessions_address, VALIDATE CONSTRAINT portal_sessions_user_agent;
CREATE INDEX IF NOT EXISTS tenants_by_change ON tenants (changed_by);

-- Hours of acceptance whose stored rows are not in delivery_counts yet. A worker counts the newest first, once the hour
-- has ended. Infinity stands for the retries in endpoint_activity.
CREATE TABLE uncounted_hours (hour timestamptz PRIMARY KEY);

-- All hours of the days that have rows, up to tomorrow: older api processes go on publishing during the upgrade. Nothing
-- if migration 0046 has counted: then delivery_counts has rows, which its owner cannot see.
WITH RECURSIVE old_deliveries AS (
  SELECT min(day) AS day FROM deliveries_default
  UNION ALL SELECT (SELECT min(d.day) FROM deliveries_default d WHERE d.day > o.day) FROM old_deliveries o WHERE o.day IS NOT NULL
), old_events AS (
  SELECT min(day) AS day FROM events_default
  UNION ALL SELECT (SELECT min(e.day) FROM events_default e WHERE e.day > o.day) FROM old_events o WHERE o.day IS NOT NULL
), days AS (
  SELECT partition_days() AS day UNION SELECT day FROM old_deliveries UNION SELECT day FROM old_events
), hours AS (
  SELECT (day + make_interval(hours => n)) AT TIME ZONE 'UTC' AS hour FROM days CROSS JOIN generate_series(0, 23) AS n
  WHERE day IS NOT NULL
)
INSERT INTO uncounted_hours (hour)
  SELECT hour FROM hours WHERE pg_relation_size('delivery_counts') = 0
  UNION SELECT 'infinity' FROM hours WHERE pg_relation_size('delivery_counts') = 0;

ALTER TABLE uncounted_hours ENABLE ROW LEVEL SECURITY;
ALTER TABLE uncounted_hours FORCE ROW LEVEL SECURITY;
CREATE POLICY worker_rows ON uncounted_hours TO signet_worker USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON uncounted_hours FOR SELECT TO signet_operator USING (true);
-- UPDATE only for FOR UPDATE SKIP LOCKED.
GRANT SELECT, UPDATE, DELETE ON uncounted_hours TO signet_worker;
GRANT SELECT ON uncounted_hours TO signet_operator;
