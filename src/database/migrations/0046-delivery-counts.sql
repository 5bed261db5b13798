-- Exact counts of deliveries and attempts, per tenant, endpoint, event type and hour, and the health of endpoints. Like
-- dead letters (migration 0027), each statement appends what it changed, and the worker folds the lines. What is stored
-- already is counted by the worker (migration 0059).
-- The hour inside an id (wire.md, Ids).
CREATE FUNCTION id_hour(id text) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  body text := right(id, 24);
  ms bigint := 0;
BEGIN
  FOR place IN 1 .. 9 LOOP
    ms := ms * 32 + strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(body, place, 1)) - 1;
  END LOOP;
  ms := ms * 8 + (strpos('0123456789abcdefghjkmnpqrstvwxyz', substr(body, 10, 1)) - 1) / 4;
  RETURN to_timestamp(ms / 3600000 * 3600);
END $$;

CREATE TABLE delivery_changes (
  tenant_id   text COLLATE "C" NOT NULL,
  -- '' on the lines of events.
  endpoint_id text COLLATE "C" NOT NULL,
  event_type  text NOT NULL,
  -- When the deliveries or events were accepted, by their ids. Null on lines of attempts only.
  hour        timestamptz,
  -- When the attempts ended. Null on lines without attempts.
  attempt_hour timestamptz,
  -- Published by the tenant.
  events      int NOT NULL DEFAULT 0,
  -- Of their contents, as stored.
  bytes       bigint NOT NULL DEFAULT 0,
  accepted    int NOT NULL DEFAULT 0,
  delivered   int NOT NULL DEFAULT 0,
  retrying    int NOT NULL DEFAULT 0,
  dead        int NOT NULL DEFAULT 0,
  expired     int NOT NULL DEFAULT 0,
  cancelled   int NOT NULL DEFAULT 0,
  attempts    int NOT NULL DEFAULT 0,
  failed      int NOT NULL DEFAULT 0,
  -- The newest results in their order, 1 for success and 0 for failure, and the instant of the last one.
  results     text,
  ended_at    timestamptz,
  -- Of the newest failure.
  failed_at   timestamptz,
  status      int,
  error       text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE TABLE delivery_counts (
  tenant_id   text COLLATE "C" NOT NULL,
  hour        timestamptz NOT NULL,
  endpoint_id text COLLATE "C" NOT NULL,
  event_type  text NOT NULL,
  events      int NOT NULL,
  bytes       bigint NOT NULL,
  accepted    int NOT NULL,
  delivered   int NOT NULL,
  dead        int NOT NULL,
  expired     int NOT NULL,
  cancelled   int NOT NULL,
  attempts    int NOT NULL,
  failed      int NOT NULL,
  PRIMARY KEY (tenant_id, hour, endpoint_id, event_type)
) WITH (fillfactor = 70);
CREATE INDEX delivery_counts_by_hour ON delivery_counts (hour);

CREATE TABLE endpoint_activity (
  endpoint_id text COLLATE "C" PRIMARY KEY REFERENCES endpoints ON DELETE CASCADE,
  tenant_id   text COLLATE "C" NOT NULL,
  health      text NOT NULL CONSTRAINT endpoint_activity_health CHECK (health IN ('healthy', 'degraded', 'failing')),
  -- Null until it has changed once.
  health_since timestamptz,
  -- Of the last 20 attempts, like delivery_changes.results.
  results     text NOT NULL,
  -- When the current row of failures began.
  failing_since timestamptz,
  last_failure_at timestamptz,
  last_status int,
  last_error  text,
  retrying    int NOT NULL,
  dead        int NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX endpoint_activity_unhealthy ON endpoint_activity (tenant_id, endpoint_id) WHERE health <> 'healthy';

ALTER TABLE delivery_changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE delivery_changes FORCE ROW LEVEL SECURITY;
ALTER TABLE delivery_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE delivery_counts FORCE ROW LEVEL SECURITY;
ALTER TABLE endpoint_activity ENABLE ROW LEVEL SECURITY;
ALTER TABLE endpoint_activity FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON delivery_changes TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON delivery_counts FOR SELECT TO signet_api USING (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON endpoint_activity FOR SELECT TO signet_api USING (tenant_id = current_tenant());
CREATE POLICY ingest_rows ON delivery_changes FOR INSERT TO signet_ingest WITH CHECK (true);
-- The owner's, when it drops a day.
CREATE POLICY owner_rows ON delivery_changes FOR INSERT TO signet_owner WITH CHECK (true);
CREATE POLICY worker_rows ON delivery_changes TO signet_worker USING (true) WITH CHECK (true);
CREATE POLICY worker_rows ON delivery_counts TO signet_worker USING (true) WITH CHECK (true);
CREATE POLICY worker_rows ON endpoint_activity TO signet_worker USING (true) WITH CHECK (true);
CREATE POLICY operator_rows ON delivery_changes FOR SELECT TO signet_operator USING (true);
CREATE POLICY operator_rows ON delivery_counts FOR SELECT TO signet_operator USING (true);
CREATE POLICY operator_rows ON endpoint_activity FOR SELECT TO signet_operator USING (true);
GRANT INSERT ON delivery_changes TO signet_api, signet_ingest, signet_worker;
GRANT SELECT ON delivery_changes, delivery_counts, endpoint_activity TO signet_api, signet_operator;
-- UPDATE only for FOR UPDATE SKIP LOCKED.
GRANT SELECT, UPDATE, DELETE ON delivery_changes TO signet_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON delivery_counts, endpoint_activity TO signet_worker;

-- For the reconciliation of counts and rows, without contents and answers.
CREATE POLICY reconciled_rows ON events FOR SELECT TO signet_operator USING (true);
CREATE POLICY reconciled_rows ON deliveries FOR SELECT TO signet_operator USING (true);
GRANT SELECT (day, id, tenant_id, endpoint_id, event_id, event_type, state) ON deliveries TO signet_operator;
GRANT SELECT (day, id, tenant_id, type, deliveries, own) ON events TO signet_operator;

-- One line per delivery that changes its state, except for the two changes of a delivery that its first attempt delivers:
-- the statements that make these append a line for all of their deliveries (decision 29).
CREATE FUNCTION count_delivery_state() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before text := CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END;
BEGIN
  INSERT INTO public.delivery_changes
    (tenant_id, endpoint_id, event_type, hour, delivered, retrying, dead, expired, cancelled)
  VALUES (NEW.tenant_id, NEW.endpoint_id, NEW.event_type, public.id_hour(NEW.id),
    (NEW.state = 'DELIVERED')::int - (before IS NOT DISTINCT FROM 'DELIVERED')::int,
    (NEW.state = 'RETRYING')::int - (before IS NOT DISTINCT FROM 'RETRYING')::int,
    (NEW.state = 'DEAD_LETTERED')::int - (before IS NOT DISTINCT FROM 'DEAD_LETTERED')::int,
    (NEW.state = 'EXPIRED')::int - (before IS NOT DISTINCT FROM 'EXPIRED')::int,
    (NEW.state = 'CANCELLED')::int - (before IS NOT DISTINCT FROM 'CANCELLED')::int);
  RETURN NULL;
END $$;
CREATE TRIGGER states_begin AFTER INSERT ON deliveries FOR EACH ROW
  WHEN (NEW.state <> 'QUEUED' AND current_setting('signet.moving', true) IS DISTINCT FROM 'on')
  EXECUTE FUNCTION count_delivery_state();
CREATE TRIGGER states_change AFTER UPDATE OF state ON deliveries FOR EACH ROW
  WHEN (OLD.state <> NEW.state
    AND NOT (NEW.state = 'DELIVERED' AND OLD.state = 'QUEUED' AND NEW.first_duration_ms IS NOT NULL))
  EXECUTE FUNCTION count_delivery_state();
