-- How requests to an endpoint's receiver are made beyond the signature: headers of the tenant's own, and what the receiver
-- asks of whoever sends. Null in request_version, which is all that a delivery loads, means that there is nothing of it.
ALTER TABLE endpoints
  -- Counts changes of the other two; never goes back to null, so that a worker's memory of a version stays right.
  ADD COLUMN request_version int,
  -- JSON text: names and values.
  ADD COLUMN headers         text,
  -- JSON text as it is shown: without secrets.
  ADD COLUMN authentication  text;

-- The part with the secrets.
CREATE TABLE endpoint_authentications (
  endpoint_id text COLLATE "C" PRIMARY KEY REFERENCES endpoints,
  tenant_id   text COLLATE "C" NOT NULL REFERENCES tenants,
  -- The request_version that it came with; part of the place that the envelope is bound to.
  version     int NOT NULL,
  sealed      text NOT NULL
);
ALTER TABLE endpoint_authentications ENABLE ROW LEVEL SECURITY;
ALTER TABLE endpoint_authentications FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON endpoint_authentications TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY worker_rows ON endpoint_authentications FOR SELECT TO signet_worker USING (true);
GRANT SELECT (endpoint_id, tenant_id, version), INSERT, DELETE ON endpoint_authentications TO signet_api;
GRANT SELECT ON endpoint_authentications TO signet_worker;

-- Who has stolen a credential of a held tenant cannot have its deliveries authenticate as somebody else.
CREATE TRIGGER endpoint_secrets_frozen BEFORE INSERT ON endpoint_authentications
  FOR EACH ROW EXECUTE FUNCTION refuse_frozen_secret();
