-- Endpoints that nothing reaches, endpoints that have gone, and pings that hosts did not ask for.

-- A bare 200 is given by many hosts that never asked: an endpoint can be held to the challenge.
ALTER TABLE endpoints ADD COLUMN require_echo boolean NOT NULL DEFAULT false;
ALTER TABLE endpoints ADD CONSTRAINT endpoints_disabled_reason CHECK (disabled_reason IN ('tenant', 'failing'));

-- Endpoints whose deliveries fail, since the first failure after the last 2xx. Healthy ones have no row.
CREATE TABLE endpoint_failures (
  endpoint_id   text COLLATE "C" PRIMARY KEY REFERENCES endpoints ON DELETE CASCADE,
  failing_since timestamptz NOT NULL,
  -- When a delivery ended its 17 attempts in this time.
  exhausted_at  timestamptz
);
CREATE INDEX endpoint_failures_exhausted ON endpoint_failures (failing_since) WHERE exhausted_at IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON endpoint_failures TO signet_worker;

-- Tombstones end after a while, with everything that hangs on them.
CREATE INDEX endpoints_tombstones ON endpoints (deleted_at) WHERE state = 'DELETED';
-- A constraint is checked with the owner's eyes, which see no endpoint while row-level security is forced.
ALTER TABLE endpoints NO FORCE ROW LEVEL SECURITY;
ALTER TABLE endpoint_secrets DROP CONSTRAINT endpoint_secrets_endpoint_id_fkey,
  ADD CONSTRAINT endpoint_secrets_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES endpoints ON DELETE CASCADE;
ALTER TABLE endpoint_health DROP CONSTRAINT endpoint_health_endpoint_id_fkey,
  ADD CONSTRAINT endpoint_health_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES endpoints ON DELETE CASCADE;
ALTER TABLE endpoint_authentications DROP CONSTRAINT endpoint_authentications_endpoint_id_fkey,
  ADD CONSTRAINT endpoint_authentications_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES endpoints ON DELETE CASCADE;
ALTER TABLE endpoints FORCE ROW LEVEL SECURITY;

-- Pings to one host, of all tenants together, since the first one of its minute.
CREATE TABLE pinged_hosts (
  host  text COLLATE "C" PRIMARY KEY,
  since timestamptz NOT NULL,
  pings int NOT NULL
);
CREATE INDEX pinged_hosts_by_age ON pinged_hosts (since);
GRANT SELECT, INSERT, UPDATE, DELETE ON pinged_hosts TO signet_worker;
