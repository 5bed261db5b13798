-- What the dispatcher needs to start lists: shares per tenant, retries that look for a new carrier, slow endpoints.

-- The outbox by tenant: a claim takes a share from each tenant that waits, and finds the next one by skipping.
DROP INDEX deliveries_unclaimed;
CREATE INDEX deliveries_unclaimed ON deliveries (tenant_id, id) WHERE carrier IS NULL AND state = 'QUEUED';

-- Members that left their list after a failure, or lost their workflow, wait here for a list of one endpoint.
CREATE INDEX deliveries_uncarried ON deliveries (next_attempt_at) WHERE carrier IS NULL AND state = 'RETRYING';

-- What workers tell each other of endpoints that were slow or failed: their deliveries take the slow lane.
CREATE TABLE endpoint_health (
  endpoint_id text COLLATE "C" PRIMARY KEY REFERENCES endpoints,
  -- What a request to it takes, smoothed.
  latency_ms  int NOT NULL,
  slow_until  timestamptz NOT NULL
);
CREATE INDEX endpoint_health_slow ON endpoint_health (slow_until);

-- Live workers share the rate at which workflows are started.
CREATE TABLE workers (
  id      text COLLATE "C" PRIMARY KEY,
  seen_at timestamptz NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON endpoint_health, workers TO signet_worker;
