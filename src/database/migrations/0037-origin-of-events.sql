-- Whether the service says an event itself (decision 0023, `source`). Null for what tenants publish, and for every event
-- from before: those could have any type, so their type proves nothing.
ALTER TABLE events ADD COLUMN own boolean;
-- Events by their publisher's own id. Only events with such an id are in it.
CREATE INDEX events_of_source_id ON events (tenant_id, source_id, day, id) WHERE source_id IS NOT NULL;
