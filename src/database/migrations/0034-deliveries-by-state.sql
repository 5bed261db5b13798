-- Lists of the states that few deliveries are in. Without it a list of a tenant's retrying deliveries walks over all that
-- were delivered: half a second with a million of them. A delivery that succeeds is never in this index.
CREATE INDEX deliveries_of_state ON deliveries (tenant_id, state, day, id)
  WHERE state IN ('RETRYING', 'EXPIRED', 'CANCELLED');
