-- Grades of receivers (docs/grader.md): what was asked for, and what came of it. The newest few of an endpoint are kept.
CREATE TABLE endpoint_grades (
  id          text COLLATE "C" PRIMARY KEY,
  tenant_id   text COLLATE "C" NOT NULL REFERENCES tenants,
  endpoint_id text COLLATE "C" NOT NULL REFERENCES endpoints ON DELETE CASCADE,
  state       text NOT NULL CONSTRAINT endpoint_grades_state CHECK (state IN ('QUEUED', 'RUNNING', 'COMPLETED', 'FAILED')),
  -- How often a worker has begun with it.
  runs        int NOT NULL DEFAULT 0,
  -- When another worker may take it for lost.
  lease_until timestamptz,
  failure     text CONSTRAINT endpoint_grades_failure CHECK (failure IN ('endpoint_not_active', 'interrupted')),
  -- JSON as it is shown: verdicts, statuses and times, nothing of what a receiver wrote.
  report      text,
  created_at  timestamptz NOT NULL,
  finished_at timestamptz
);
-- One at a time.
CREATE UNIQUE INDEX endpoint_grades_open ON endpoint_grades (endpoint_id) WHERE state IN ('QUEUED', 'RUNNING');
CREATE INDEX endpoint_grades_waiting ON endpoint_grades (created_at) WHERE state IN ('QUEUED', 'RUNNING');
CREATE INDEX endpoint_grades_of_endpoint ON endpoint_grades (endpoint_id, id);

ALTER TABLE endpoint_grades ENABLE ROW LEVEL SECURITY;
ALTER TABLE endpoint_grades FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON endpoint_grades TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY worker_rows ON endpoint_grades TO signet_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT, DELETE ON endpoint_grades TO signet_api;
GRANT SELECT, UPDATE ON endpoint_grades TO signet_worker;
