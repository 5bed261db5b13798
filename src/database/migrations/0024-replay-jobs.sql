-- Replays as durable jobs: what was asked for, the list of what it came to at that moment, and what has become of each.

CREATE TABLE replay_jobs (
  id              text COLLATE "C" PRIMARY KEY,
  tenant_id       text COLLATE "C" NOT NULL REFERENCES tenants,
  kind            text NOT NULL CONSTRAINT replay_jobs_kind CHECK (kind IN ('dead_letters', 'missing')),
  -- The one endpoint that it speaks of, if it does.
  endpoint_id     text COLLATE "C",
  state           text NOT NULL CONSTRAINT replay_jobs_state CHECK (state IN ('RUNNING', 'PAUSED', 'COMPLETED', 'CANCELLED')),
  rate_per_second int NOT NULL,
  total           int NOT NULL,
  done            int NOT NULL DEFAULT 0,
  failed          int NOT NULL DEFAULT 0,
  skipped         int NOT NULL DEFAULT 0,
  -- Items up to here have their result.
  position        int NOT NULL DEFAULT 0,
  created_at      timestamptz NOT NULL,
  -- When its workflow was last heard of or asked for: the sweep looks after what is RUNNING and silent.
  touched_at      timestamptz NOT NULL,
  finished_at     timestamptz,
  CONSTRAINT replay_jobs_finished CHECK ((finished_at IS NULL) = (state IN ('RUNNING', 'PAUSED')))
);
CREATE INDEX replay_jobs_of_tenant ON replay_jobs (tenant_id, id);
CREATE INDEX replay_jobs_open ON replay_jobs (tenant_id) WHERE finished_at IS NULL;
CREATE INDEX replay_jobs_running ON replay_jobs (touched_at) WHERE state = 'RUNNING';
CREATE INDEX replay_jobs_finished_at ON replay_jobs (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE replay_items (
  job_id      text COLLATE "C" NOT NULL REFERENCES replay_jobs ON DELETE CASCADE,
  -- From 1, oldest first.
  position    int NOT NULL,
  tenant_id   text COLLATE "C" NOT NULL,
  -- Of the delivery and of its event.
  day         date NOT NULL,
  -- Null until it is made, where the endpoint has never had one.
  delivery_id text COLLATE "C",
  event_id    text COLLATE "C",
  -- The cycle that has failed: a letter that dies again later is another one.
  cycle       int,
  -- Null while it waits for its turn.
  result      text CONSTRAINT replay_items_result CHECK (result IN
    ('replayed', 'not_in_queue', 'content_erased', 'delivery_exists', 'expired', 'not_found', 'endpoint_unavailable')),
  PRIMARY KEY (job_id, position)
);

ALTER TABLE replay_jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE replay_jobs FORCE ROW LEVEL SECURITY;
ALTER TABLE replay_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE replay_items FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON replay_jobs TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON replay_items TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY worker_rows ON replay_jobs TO signet_worker USING (true) WITH CHECK (true);
CREATE POLICY worker_rows ON replay_items TO signet_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON replay_jobs, replay_items TO signet_api;
GRANT UPDATE (state, total, failed, skipped, position, touched_at, finished_at) ON replay_jobs TO signet_api;
GRANT SELECT, DELETE ON replay_jobs, replay_items TO signet_worker;
GRANT UPDATE (state, done, failed, skipped, position, touched_at, finished_at) ON replay_jobs TO signet_worker;
GRANT UPDATE (delivery_id, result) ON replay_items TO signet_worker;

-- Deliveries of events that an endpoint has never got.
GRANT INSERT ON deliveries TO signet_worker;

-- The queue of one endpoint, page by page.
CREATE INDEX deliveries_dead_of_endpoint ON deliveries (tenant_id, endpoint_id, day, id) WHERE state = 'DEAD_LETTERED';
