-- Finds dead letters without a carrier (NULL), and those of a carrier.
CREATE INDEX deliveries_dead_of_carrier ON deliveries (carrier, endpoint_id, id) WHERE state = 'DEAD_LETTERED';
