-- What a tenant says about its event types: a description, examples, and the JSON Schema that `data` must fit. Types
-- without a row here are accepted as they come.
CREATE TABLE event_types (
  tenant_id      text COLLATE "C" NOT NULL REFERENCES tenants,
  name           text COLLATE "C" NOT NULL,
  description    text,
  -- JSON array of the tenant's own spelling.
  examples       text NOT NULL,
  -- The version that events are checked against; null while the type has no schema.
  schema_version int,
  -- SHA-256 of that version's text: what the ingest compares with the one that it has checked an event against.
  schema_digest  text COLLATE "C",
  deprecated_at  timestamptz,
  replaced_by    text,
  archived_at    timestamptz,
  created_at     timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, name),
  CONSTRAINT event_types_schema CHECK ((schema_version IS NULL) = (schema_digest IS NULL))
);

-- Versions never change: signet_api can add them, and they go with their type.
CREATE TABLE event_type_schemas (
  tenant_id  text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  version    int NOT NULL CONSTRAINT event_type_schemas_version CHECK (version >= 1),
  schema     text NOT NULL,
  digest     text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, name, version),
  FOREIGN KEY (tenant_id, name) REFERENCES event_types ON DELETE CASCADE
);

ALTER TABLE event_types ENABLE ROW LEVEL SECURITY;
ALTER TABLE event_types FORCE ROW LEVEL SECURITY;
ALTER TABLE event_type_schemas ENABLE ROW LEVEL SECURITY;
ALTER TABLE event_type_schemas FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON event_types TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY tenant_rows ON event_type_schemas TO signet_api
  USING (tenant_id = current_tenant()) WITH CHECK (tenant_id = current_tenant());
CREATE POLICY ingest_rows ON event_types FOR SELECT TO signet_ingest USING (true);
CREATE POLICY ingest_rows ON event_type_schemas FOR SELECT TO signet_ingest USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON event_types TO signet_api;
GRANT SELECT, INSERT ON event_type_schemas TO signet_api;
GRANT SELECT (tenant_id, name, schema_version, schema_digest, deprecated_at) ON event_types TO signet_ingest;
GRANT SELECT (tenant_id, name, version, schema, digest) ON event_type_schemas TO signet_ingest;

-- Which events of its types an endpoint takes: JSON text, null for all. The hash tells the ingest whether it is the
-- filter that it has tried an event with; whatever writes a filter need not think of it.
ALTER TABLE endpoints ADD COLUMN filter text;
ALTER TABLE endpoints ADD COLUMN filter_hash bigint GENERATED ALWAYS AS (hashtextextended(filter, 0)) STORED;
GRANT SELECT (filter, filter_hash) ON endpoints TO signet_ingest;
