-- Retries without a workflow are claimed in turns of their tenants, those whose last attempt timed out apart (decision 43).
-- Workers of 0.4.0 still read deliveries_uncarried_of_tenant.
CREATE INDEX deliveries_uncarried_answered ON deliveries (tenant_id, next_attempt_at)
  WHERE carrier IS NULL AND state = 'RETRYING' AND last_error IS DISTINCT FROM 'timeout';
CREATE INDEX deliveries_uncarried_timed_out ON deliveries (tenant_id, next_attempt_at)
  WHERE carrier IS NULL AND state = 'RETRYING' AND last_error = 'timeout';
GRANT SELECT (last_error) ON deliveries TO signet_operator;
