-- Lists of the deliveries of one endpoint, or of one event type, that few of a tenant's are for. Without them such a list
-- walks over all of the tenant's deliveries: a third of a second with a million of them. A delivery has an entry from its
-- first outcome on, so that one that succeeds at once is written here once, not with its acceptance and its claim too;
-- those that wait for their first outcome have indexes of their own, small while deliveries flow (decision 0024).
CREATE INDEX deliveries_of_endpoint ON deliveries (tenant_id, endpoint_id, day, id) WHERE state <> 'QUEUED';
CREATE INDEX deliveries_of_type ON deliveries (tenant_id, event_type, day, id) WHERE state <> 'QUEUED';
-- The same for the list of events of one type. An event is written once.
CREATE INDEX events_of_type ON events (tenant_id, type, day, id);
