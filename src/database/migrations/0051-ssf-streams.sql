-- Streams of security events (OpenID Shared Signals Framework 1.0). The deliveries of a push stream are those of an
-- endpoint of its own. A poll stream has a queue, whose entries refer to events.
ALTER TABLE endpoints ADD COLUMN ssf_stream text COLLATE "C";

CREATE TABLE ssf_streams (
  id               text COLLATE "C" PRIMARY KEY,
  tenant_id        text COLLATE "C" NOT NULL REFERENCES tenants,
  -- `iss` of its tokens: the public URL when it was created.
  issuer           text NOT NULL,
  -- Null for polling.
  endpoint_id      text COLLATE "C" REFERENCES endpoints ON DELETE CASCADE,
  -- Null for every supported type.
  events_requested text[],
  description      text,
  status           text NOT NULL DEFAULT 'enabled' CONSTRAINT ssf_streams_status CHECK (status IN ('enabled', 'paused', 'disabled')),
  status_reason    text,
  -- When its receiver last requested a verification event.
  verification_at  timestamptz,
  created_at       timestamptz NOT NULL
);
CREATE INDEX ssf_streams_of_tenant ON ssf_streams (tenant_id, id);
CREATE INDEX ssf_streams_of_endpoint ON ssf_streams (endpoint_id) WHERE endpoint_id IS NOT NULL;

-- Subjects whose events a stream does not get. All others are in it by default.
CREATE TABLE ssf_removed_subjects (
  stream_id text COLLATE "C" NOT NULL REFERENCES ssf_streams ON DELETE CASCADE,
  -- JSON text with its members in order.
  subject   text COLLATE "C" NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (stream_id, subject)
);

-- Tokens that a receiver has not acknowledged (RFC 8936), oldest first.
CREATE TABLE ssf_polled_sets (
  stream_id  text COLLATE "C" NOT NULL REFERENCES ssf_streams ON DELETE CASCADE,
  -- `jti` of the token.
  id         text COLLATE "C" NOT NULL,
  tenant_id  text COLLATE "C" NOT NULL,
  event_id   text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (stream_id, id)
);
CREATE INDEX ssf_polled_sets_by_age ON ssf_polled_sets (created_at);

ALTER TABLE ssf_streams ENABLE ROW LEVEL SECURITY;
ALTER TABLE ssf_streams FORCE ROW LEVEL SECURITY;
ALTER TABLE ssf_removed_subjects ENABLE ROW LEVEL SECURITY;
ALTER TABLE ssf_removed_subjects FORCE ROW LEVEL SECURITY;
ALTER TABLE ssf_polled_sets ENABLE ROW LEVEL SECURITY;
ALTER TABLE ssf_polled_sets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON ssf_streams TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON ssf_removed_subjects TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON ssf_polled_sets TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
GRANT SELECT, INSERT, DELETE ON ssf_streams, ssf_removed_subjects TO signet_api;
GRANT UPDATE (events_requested, description, status, status_reason, verification_at) ON ssf_streams TO signet_api;
GRANT SELECT, DELETE ON ssf_polled_sets TO signet_api;

-- Whoever publishes an event acts as this role. It locks the streams, and disables one whose queue is full.
CREATE POLICY ingest_rows ON ssf_streams TO signet_ingest USING (true) WITH CHECK (true);
CREATE POLICY ingest_rows ON ssf_removed_subjects FOR SELECT TO signet_ingest USING (true);
CREATE POLICY ingest_rows ON ssf_polled_sets TO signet_ingest USING (true) WITH CHECK (true);
GRANT SELECT, UPDATE (status, status_reason) ON ssf_streams TO signet_ingest;
GRANT SELECT ON ssf_removed_subjects TO signet_ingest;
GRANT SELECT, INSERT ON ssf_polled_sets TO signet_ingest;

-- Retention, and erasure of tenants.
CREATE POLICY worker_rows ON ssf_streams TO signet_worker USING (true);
CREATE POLICY worker_rows ON ssf_removed_subjects TO signet_worker USING (true);
CREATE POLICY worker_rows ON ssf_polled_sets TO signet_worker USING (true);
GRANT SELECT, DELETE ON ssf_streams, ssf_removed_subjects, ssf_polled_sets TO signet_worker;
