-- A replay does not send to an endpoint that is disabled: the item fails with this reason, and the delivery stays as it is.
ALTER TABLE replay_items
  DROP CONSTRAINT replay_items_result,
  ADD CONSTRAINT replay_items_result CHECK (result IN
    ('replayed', 'attempted', 'not_in_queue', 'state_changed', 'content_erased', 'delivery_exists', 'expired', 'not_found',
     'endpoint_disabled', 'endpoint_unavailable')) NOT VALID;

-- The dead-letter queue in the order of death, of a tenant and of an endpoint. Their condition is one that no other statement
-- has: with statistics of another time, claims would follow these indexes and read every dead letter.
CREATE INDEX deliveries_dead_by_death ON deliveries (tenant_id, dead_lettered_at, id)
  WHERE starts_with(state, 'DEAD_LETTERED');
CREATE INDEX deliveries_dead_by_death_of_endpoint ON deliveries (tenant_id, endpoint_id, dead_lettered_at, id)
  WHERE starts_with(state, 'DEAD_LETTERED');
