-- Endpoints, events and deliveries. What grows is partitioned by the UTC day inside its id from the first day on:
-- retention drops partitions, look-ups by id know their partition.

CREATE TABLE endpoints (
  id              text COLLATE "C" PRIMARY KEY,
  tenant_id       text COLLATE "C" NOT NULL REFERENCES tenants,
  url             text NOT NULL,
  event_types     text[] NOT NULL,
  -- Kept as text: the tenant's own spelling of numbers and member order travels in every envelope.
  metadata        text,
  description     text,
  state           text NOT NULL CONSTRAINT endpoints_state CHECK (state IN ('PENDING', 'ACTIVE', 'DISABLED', 'DELETED')),
  disabled_reason text,
  -- Counts verification runs; part of the workflow id verify/<endpoint>/<generation>.
  generation      int NOT NULL DEFAULT 1,
  -- WANTED until the workflow's first ping has been recorded: the sweep starts what is wanted and not running.
  verification_state text NOT NULL CONSTRAINT endpoints_verification_state
                  CHECK (verification_state IN ('WANTED', 'RUNNING', 'VERIFIED', 'EXHAUSTED')),
  verification_requested_at    timestamptz NOT NULL,
  verification_attempts        int NOT NULL DEFAULT 0,
  verification_last_error      text,
  verification_next_attempt_at timestamptz,
  verified_at     timestamptz,
  verified_by     text,
  created_at      timestamptz NOT NULL,
  updated_at      timestamptz NOT NULL,
  deleted_at      timestamptz
);
CREATE INDEX endpoints_of_tenant ON endpoints (tenant_id, id) WHERE state <> 'DELETED';
CREATE INDEX endpoints_to_verify ON endpoints (verification_requested_at) WHERE verification_state = 'WANTED' AND state = 'PENDING';

CREATE TABLE endpoint_secrets (
  endpoint_id text COLLATE "C" NOT NULL REFERENCES endpoints,
  version     int NOT NULL,
  tenant_id   text COLLATE "C" NOT NULL REFERENCES tenants,
  secret      text NOT NULL,
  fingerprint text NOT NULL,
  state       text NOT NULL CONSTRAINT endpoint_secrets_state CHECK (state IN ('NEXT', 'CURRENT', 'PREVIOUS', 'RETIRED')),
  created_at  timestamptz NOT NULL,
  PRIMARY KEY (endpoint_id, version)
);
CREATE UNIQUE INDEX endpoint_secrets_one_current ON endpoint_secrets (endpoint_id) WHERE state = 'CURRENT';

CREATE TABLE events (
  day         date NOT NULL,
  id          text COLLATE "C" NOT NULL,
  tenant_id   text COLLATE "C" NOT NULL,
  type        text NOT NULL,
  -- The publisher's bytes, never parsed and written again.
  data        text NOT NULL,
  source_id   text,
  occurred_at timestamptz NOT NULL,
  deliveries  int NOT NULL,
  created_at  timestamptz NOT NULL,
  PRIMARY KEY (day, id)
) PARTITION BY RANGE (day);
CREATE TABLE events_default PARTITION OF events DEFAULT;
CREATE INDEX events_of_tenant ON events (tenant_id, day, id);

CREATE TABLE deliveries (
  day              date NOT NULL,
  id               text COLLATE "C" NOT NULL,
  tenant_id        text COLLATE "C" NOT NULL,
  event_id         text COLLATE "C" NOT NULL,
  event_type       text NOT NULL,
  endpoint_id      text COLLATE "C" NOT NULL,
  state            text NOT NULL CONSTRAINT deliveries_state
                   CHECK (state IN ('QUEUED', 'RETRYING', 'DELIVERED', 'DEAD_LETTERED', 'EXPIRED', 'CANCELLED')),
  reason           text CONSTRAINT deliveries_reason CHECK (reason IN ('attempts_exhausted', 'endpoint_disabled')),
  -- The fence (architecture 3): only the workflow named by carrier may send, and only with this epoch.
  carrier          text COLLATE "C",
  epoch            int NOT NULL DEFAULT 1,
  cycle            int NOT NULL DEFAULT 1,
  claimed_at       timestamptz,
  attempt_count    int NOT NULL DEFAULT 0,
  cycle_started_at timestamptz,
  next_attempt_at  timestamptz,
  last_status      int,
  last_error       text,
  created_at       timestamptz NOT NULL,
  delivered_at     timestamptz,
  dead_lettered_at timestamptz,
  expires_at       timestamptz,
  PRIMARY KEY (day, id)
) PARTITION BY RANGE (day);
CREATE TABLE deliveries_default PARTITION OF deliveries DEFAULT;
-- The outbox: accepted, not yet claimed.
CREATE INDEX deliveries_unclaimed ON deliveries (id) WHERE carrier IS NULL AND state = 'QUEUED';
-- Claimed, first outcome not yet known: what the sweep looks through for workflows that never started.
CREATE INDEX deliveries_unstarted ON deliveries (claimed_at) WHERE carrier IS NOT NULL AND state = 'QUEUED';
CREATE INDEX deliveries_of_tenant ON deliveries (tenant_id, day, id);
CREATE INDEX deliveries_of_event ON deliveries (event_id);
CREATE INDEX deliveries_dead ON deliveries (tenant_id, day, id) WHERE state = 'DEAD_LETTERED';
CREATE INDEX deliveries_expiring ON deliveries (expires_at) WHERE state = 'DEAD_LETTERED';

CREATE TABLE attempts (
  day           date NOT NULL,
  delivery_id   text COLLATE "C" NOT NULL,
  cycle         int NOT NULL,
  attempt       int NOT NULL,
  id            text COLLATE "C" NOT NULL,
  tenant_id     text COLLATE "C" NOT NULL,
  -- Set while a request is under way, until the outcome is known; nobody sends again before it has passed.
  lease_until   timestamptz,
  started_at    timestamptz NOT NULL,
  duration_ms   int,
  status        int,
  error         text,
  response_body text,
  PRIMARY KEY (day, delivery_id, cycle, attempt)
) PARTITION BY RANGE (day);
CREATE TABLE attempts_default PARTITION OF attempts DEFAULT;

CREATE TABLE idempotency_keys (
  tenant_id   text COLLATE "C" NOT NULL REFERENCES tenants,
  route       text NOT NULL,
  key         text COLLATE "C" NOT NULL,
  body_hash   bytea NOT NULL,
  -- What the first request made; its answer is built again from there.
  resource_id text COLLATE "C" NOT NULL,
  created_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, route, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

ALTER TABLE endpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE endpoints FORCE ROW LEVEL SECURITY;
ALTER TABLE endpoint_secrets ENABLE ROW LEVEL SECURITY;
ALTER TABLE endpoint_secrets FORCE ROW LEVEL SECURITY;
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
ALTER TABLE events FORCE ROW LEVEL SECURITY;
ALTER TABLE deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE deliveries FORCE ROW LEVEL SECURITY;
ALTER TABLE attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE attempts FORCE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;

CREATE POLICY tenant_rows ON endpoints TO signet_api USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON endpoint_secrets TO signet_api USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON events TO signet_api USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON deliveries TO signet_api USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON attempts TO signet_api USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON idempotency_keys TO signet_api USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());

-- Group commit spans tenants. A role that may only INSERT cannot do INSERT ... SELECT, ON CONFLICT or RETURNING.
CREATE POLICY ingest_rows ON endpoints FOR SELECT TO signet_ingest USING (true);
CREATE POLICY ingest_rows ON tenants FOR SELECT TO signet_ingest USING (true);
CREATE POLICY ingest_rows ON events TO signet_ingest USING (true) WITH CHECK (true);
CREATE POLICY ingest_rows ON deliveries TO signet_ingest USING (true) WITH CHECK (true);
CREATE POLICY ingest_rows ON idempotency_keys TO signet_ingest USING (true) WITH CHECK (true);

CREATE POLICY worker_rows ON endpoints TO signet_worker USING (true) WITH CHECK (true);
CREATE POLICY worker_rows ON endpoint_secrets FOR SELECT TO signet_worker USING (true);
CREATE POLICY worker_rows ON events FOR SELECT TO signet_worker USING (true);
CREATE POLICY worker_rows ON deliveries TO signet_worker USING (true) WITH CHECK (true);
CREATE POLICY worker_rows ON attempts TO signet_worker USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE ON endpoints, endpoint_secrets TO signet_api;
GRANT SELECT ON events, attempts TO signet_api;
GRANT SELECT, UPDATE ON deliveries TO signet_api;
GRANT SELECT, INSERT, UPDATE ON idempotency_keys TO signet_api, signet_ingest;

GRANT SELECT (id, tenant_id, state, event_types) ON endpoints TO signet_ingest;
GRANT SELECT (id, state) ON tenants TO signet_ingest;
GRANT SELECT, INSERT ON events, deliveries TO signet_ingest;

GRANT SELECT, UPDATE ON endpoints, deliveries TO signet_worker;
GRANT SELECT ON endpoint_secrets, events TO signet_worker;
GRANT SELECT, INSERT, UPDATE ON attempts TO signet_worker;

-- Makes the day partitions from first_day on; days that exist are left alone. Runs as its owner: the worker calls it
-- every hour and may not create tables itself.
CREATE FUNCTION ensure_day_partitions(first_day date, days int) RETURNS int
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  parent text;
  first date;
  made int := 0;
BEGIN
  IF days NOT BETWEEN 1 AND 400 THEN
    RAISE EXCEPTION 'days must be 1 to 400';
  END IF;
  FOR step IN 0 .. days - 1 LOOP
    first := first_day + step;
    FOREACH parent IN ARRAY ARRAY['events', 'deliveries', 'attempts'] LOOP
      IF to_regclass(format('public.%I', parent || '_' || to_char(first, 'YYYYMMDD'))) IS NULL THEN
        BEGIN
          EXECUTE format(
            'CREATE TABLE public.%I PARTITION OF public.%I FOR VALUES FROM (%L) TO (%L)',
            parent || '_' || to_char(first, 'YYYYMMDD'), parent, first, first + 1
          );
          made := made + 1;
        EXCEPTION
          WHEN duplicate_table THEN NULL; -- another worker was faster
          WHEN check_violation THEN NULL; -- rows of that day already lie in the default partition and stay there
        END;
      END IF;
    END LOOP;
  END LOOP;
  RETURN made;
END $$;
REVOKE ALL ON FUNCTION ensure_day_partitions(date, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_day_partitions(date, int) TO signet_worker;
